# shellcheck shell=sh disable=SC2016,SC2154
# A run that is killed at any moment leaves no group and no process.

seen=0
round=0
while [ $round -lt 30 ]; do
    sandbox-run -q --memory 64M --max-procs 50 -- sh -c 'sleep 86402 & setsid sleep 86402 & wait' &
    run=$!
    # From before the start to well after it.
    sleep "$(printf '0.%03d' $((round * 25)))"
    no_groups || seen=$((seen + 1))
    kill -KILL $run
    wait $run
    round=$((round + 1))
done 2>/dev/null
check 'control: some of the runs had a group when they were killed' 0 -- test $seen -gt 5
check 'no process of them is left' 0 -- soon nobody 'sleep 86402'
check 'no program of them is left' 0 -- soon nobody '[b]wrap|sandbox-run -q'
check 'no group of them is left' 0 -- soon no_groups
