# shellcheck shell=sh disable=SC2016,SC2154
# With control groups of version 2 memory, processes and processor time are those of the whole tree.

check 'the memory of a tree can be bounded' 0 '+memory: enforced (control group v2' -- sandbox-run --check

# take NUMBER: so many megabytes in one process.
take='open(Z, "</dev/zero"); read(Z, $x, $ARGV[0] << 20); print "taken\n"'
bounded() { sandbox-run --memory 128M --tmp-size 800M "$@"; }
check 'a command that takes too much is killed' 137 = -- bounded --result r -- perl -e "$take" 512
check 'and the result says why' 0 -- grep -q '"limits_hit":\["memory-limit"\]' r
check 'control: one that takes less is not' 0 =taken -- bounded --result r -- perl -e "$take" 64
check 'and its result says so' 0 -- grep -q '"limits_hit":\[\]' r
check 'what a child takes counts, and all are killed' 137 = -- \
    bounded -- sh -c "perl -e '$take' 512; echo went on"
check 'what many take together counts' 137 = -- bounded -- \
    sh -c "for i in 1 2 3 4 5; do perl -e '$take; sleep 86400' 60 >/dev/null & done; wait; echo all"
check 'control: less of many does not' 0 =all -- bounded -- \
    sh -c "for i in 1 2 3; do perl -e '$take' 20 >/dev/null & done; wait; echo all"
for place in /tmp /dev/shm; do
    check "files in $place count" 137 = -- bounded -- \
        sh -c "dd if=/dev/zero of=$place/f bs=1M count=400 2>/dev/null; echo full"
    check "control: fewer in $place do not" 0 =full -- bounded -- \
        sh -c "dd if=/dev/zero of=$place/f bs=1M count=64 2>/dev/null; echo full"
done

# So many processes that stay; prints how many there could be.
start='$| = 1; for (1..$ARGV[0]) { $p = fork; last if !defined $p; if (!$p) { sleep 86400; exit } $n++ } print "$n\n"; kill 9, 0'
check 'processes are counted exactly' 137 =9 -- \
    sandbox-run --new-session always --max-procs 10 -- perl -e "$start" 30
check 'control: so many can be' 137 =9 -- sandbox-run --new-session always --max-procs 10 -- perl -e "$start" 9
check 'control: more with another limit' 137 =30 -- \
    sandbox-run --new-session always --max-procs 40 -- perl -e "$start" 30
check 'a bomb of processes is held and ended' 124 -- sandbox-run -q --max-procs 20 --timeout 2 --kill-after 0.5 -- \
    sh -c 'b() { b 2>/dev/null | b 2>/dev/null & }; b; exec sleep 86400'

burn='for i in 1 2 3 4; do while :; do :; done & done; wait; echo over'
# The shell that waits uses none itself.
check 'processor time is that of the tree' 152 = -- sandbox-run -q --timeout 60 --cpu-time 3 --result r -- sh -c "$burn"
check 'and the result says why' 0 -- grep -q '"limits_hit":\["cpu-limit"\]' r
check 'control: time that is not used does not count' 3 -- sandbox-run --cpu-time 2 -- sh -c 'sleep 2.5; exit 3'

check 'no group is left' 0 -- soon no_groups
check 'no process is left' 0 -- soon nobody 'sleep 86400'

if [ "$who" = delegated ]; then
    # The limit of the group that holds the caller is not one to get out of.
    echo 96M >/sys/fs/cgroup/delegated/own/memory.max
    check 'a limit of the caller stays' 137 = -- sandbox-run --memory 800M -- perl -e "$take" 200
    check 'control: less is not killed' 0 =taken -- sandbox-run --memory 800M -- perl -e "$take" 48
    echo max >/sys/fs/cgroup/delegated/own/memory.max
    check 'control: nor that much without such a limit' 0 =taken -- sandbox-run --memory 800M -- perl -e "$take" 200
fi
