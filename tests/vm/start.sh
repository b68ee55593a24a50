# shellcheck shell=sh disable=SC2016,SC2154
# The program starts, shows what is granted and nothing else, and ends as the command does.

check 'a backend works, and is the one that is taken' 0 '+bwrap: works' '+auto takes: bwrap' -- sandbox-run --check
check 'output and status are those of the command' 7 =inside -- sandbox-run -- sh -c 'echo inside; exit 7'
check 'a signal ends the command' 139 -- sandbox-run -- sh -c 'kill -SEGV $$'
check 'a command that is not there' 127 ~sandbox-run: -- sandbox-run -- ./missing
printf '#!/bin/sh\necho script\n' >script
check 'a file that may not be executed' 126 ~sandbox-run: -- sandbox-run -- ./script
chmod +x script
check 'control: one that may' 0 =script -- sandbox-run -- ./script

echo s3cret >"$outside/secret"
check 'a file outside is not there' 1 = '~No such file' -- sandbox-run -- cat "$outside/secret"
check 'control: it is with a read grant' 0 =s3cret -- sandbox-run -r "$outside" -- cat "$outside/secret"
check 'a read grant cannot be written' 1 '~Read-only file system' -- \
    sandbox-run -r "$outside" -- touch "$outside/made"
check 'nor the working directory' 1 '~Read-only file system' -- sandbox-run -- touch made
check 'nothing was made' 1 -- test -e made -o -e "$outside/made"
check 'control: a write grant can be' 0 -- sandbox-run -w . -- touch made
check 'and what it makes is on the host' 0 -- test -e made
check 'a mask hides what a grant shows' 1 = -- \
    sandbox-run -r "$outside" --mask "$outside/secret" -- grep s3cret "$outside/secret"

# Without its module Socket: the structure of an address is a family, and here a port and an address.
dial='socket(S, 2, 1, 0); exit(connect(S, pack("S n C4 x8", 2, 4711, 127, 0, 0, 1)) ? 0 : 3)'
perl -e 'socket(S, 2, 1, 0); setsockopt(S, 1, 2, pack("i", 1)); bind(S, pack("S n C4 x8", 2, 4711, 127, 0, 0, 1));
    listen(S, 9); while (accept(C, S)) { close(C) }' &
server=$!
soon perl -e "$dial"
check 'the network of the host is out of reach' 3 -- sandbox-run -- perl -e "$dial"
check 'control: it is reached when that is asked for' 0 -- \
    sandbox-run -q --net host --allow-gap sockets -- perl -e "$dial"
kill $server

check 'a command that ignores TERM is ended' 124 -- \
    sandbox-run --timeout 1 --kill-after 0.5 -- sh -c 'trap "" TERM; while :; do sleep 86400; done'
check 'control: one that is in time goes on' 5 -- sandbox-run --timeout 60 -- sh -c 'sleep 1.5; exit 5'
check 'nothing of it is left' 0 -- soon nobody 'sleep 86400'
