# shellcheck shell=sh disable=SC2016,SC2154
# A user to whom no group was delegated: what cannot be held is refused.

check 'memory cannot be bounded, and that is said' 0 '+memory: absent' '+no control group can be made' -- \
    sandbox-run --check
check 'a limit on memory is refused' 125 = '~memory' '~hint: --allow-gap memory' -- \
    sandbox-run --memory 64M -- echo ran
check 'unless that is accepted' 0 =ran '~not enforced, as accepted: memory' -- \
    sandbox-run --memory 64M --allow-gap memory -- echo ran

start='$| = 1; for (1..$ARGV[0]) { $p = fork; last if !defined $p; if (!$p) { sleep 86400; exit } $n++ } print "$n\n"; kill 9, 0'
sleep 86401 &
check 'processes are counted, and only those inside' 137 =9 -- \
    sandbox-run --new-session always --max-procs 10 -- perl -e "$start" 30
kill $!
check 'control: more with another limit' 137 =30 -- \
    sandbox-run --new-session always --max-procs 40 -- perl -e "$start" 30
check 'processor time is that of each process' 152 -- sandbox-run --cpu-time 1 -- sh -c 'while :; do :; done'
check 'no process is left' 0 -- soon nobody 'sleep 86400'
