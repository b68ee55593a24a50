# shellcheck shell=sh disable=SC2016,SC2154
# The backend that needs no namespaces: what it does by the version of Landlock that the kernel has, and what it refuses.

version=$(landlock)
gap=
case $(uname -m) in aarch64) seccomp=277 ;; *) seccomp=317 ;; esac

if [ "$version" = -1 ]; then
    check 'Landlock is switched off: refused, with the remedy' 125 = '~switched off' '~lsm=' -- \
        sandbox-run -b landlock -- echo ran
    return
fi
if [ "$version" -lt 6 ]; then
    check "signals of version $version reach outside: refused" 125 = '~processes (' '~ABI 6' \
        '~hint: --allow-gap processes' -- sandbox-run -b landlock -- echo ran
    check 'unless that is accepted, and then said' 0 =ran '~not enforced, as accepted: processes' -- \
        sandbox-run -b landlock --allow-gap processes -- echo ran
    gap=processes
fi
# lock ARGUMENT...: what has to be accepted is the same in all of these, and on a new kernel nothing.
if [ "$gap" = processes ]; then
    lock() { sandbox-run -q -b landlock --allow-gap processes "$@"; }
else
    lock() { sandbox-run -q -b landlock "$@"; }
fi

mkdir d d/e
echo secret >"$outside/secret"
echo kept >d/f
check 'a status passes' 7 -- lock -- sh -c 'exit 7'
check 'what is not granted cannot be read' 1 = '~ermission denied' -- lock -- cat "$outside/secret"
check 'control: what is granted can' 0 =secret -- lock -r "$outside" -- cat "$outside/secret"
for change in 'echo x >d/f' 'rm d/f' 'mkdir d/new' 'mv d/f d/e/f' 'ln d/f d/e/f'; do
    lock -- sh -c "$change" 2>/dev/null
    check "nothing is changed by $change" 0 =kept -- sh -c 'cat d/f; ls d | grep -v "^[ef]$"; ls d/e'
done
for empty in 'truncate("d/f", 0)' 'sysopen(F, "d/f", 01000)' 'sysopen(F, "d/f", 01001)'; do
    lock -- perl -e "$empty" 2>/dev/null
    check "nor emptied by $empty" 0 =kept -- cat d/f
done
check 'control: a write grant lets it be changed' 0 = -- \
    lock -w d -- sh -c 'echo x >d/f && mv d/f d/e/f && ln d/e/f d/new && rm d/e/f && rmdir d/e'
check 'control: and so it is' 0 =x -- cat d/new
if [ "$version" -ge 3 ]; then
    check 'control: it is emptied by its name' 0 = -- lock -w d -- perl -e 'truncate("d/new", 0) or die'
    check 'control: and so it is' 0 = -- cat d/new
fi
mode='print chmod(0711, $ARGV[0]) && utime(1, 1, $ARGV[0]) ? "changed" : "refused"'
check 'no mode is changed outside a write grant' 0 =refused -- lock -w d -r "$outside" -- perl -e "$mode" "$outside/secret"
check 'control: inside one it is' 0 =changed -- lock -w d -- perl -e "$mode" d/new
check 'and so it is' 0 '=711 1' -- stat -c '%a %Y' d/new
check 'a filter that asks is refused' 0 =refused -- lock -- perl -e '
    print syscall($ARGV[0] + 0, 1, 8, 0) < 0 && $! == 1 ? "refused" : "asked"' "$seccomp"

# AF_INET, AF_INET6, AF_NETLINK; a pair; a pair that can be sent elsewhere.
check 'no socket of the network' 0 =... -- lock -- perl -e '
    for (2, 10, 16) { print socket(S, $_, 2, 0) ? "open" : "." }'
check 'control: with the network of the host there is' 0 =open -- lock --net host -- perl -e '
    print socket(S, 2, 2, 0) ? "open" : "."'
connect='socket(S, 2, 1, 0) or exit 4; exit(connect(S, pack("S n C4 x8", 2, $ARGV[1], split /[.]/, $ARGV[0])) ? 0 : 3)'
if [ "$version" -ge 4 ]; then
    check 'a way out by rules is reached' 0 -- lock --allow-host ok.test -- perl -e "$connect" 127.0.0.1 3128
    check 'at its own address' 3 -- lock --allow-host ok.test -- perl -e "$connect" 127.0.0.2 3128
    check 'and at its own port' 3 -- lock --allow-host ok.test -- perl -e "$connect" 127.0.0.1 3129
    check 'and there is nothing else of the network' 0 =.. -- lock --allow-host ok.test -- perl -e '
        for (2, 10) { print socket(S, $_, 2, 0) ? "open" : "." }'
    check 'nobody listens' 0 =refused -- lock --allow-host ok.test -- perl -e '
        socket(S, 2, 1, 0) or exit 4; print listen(S, 1) ? "listens" : "refused"'
    check 'control: without a way out there is not even that' 4 -- lock -- perl -e "$connect" 127.0.0.1 3128
else
    check 'a way out by rules is refused' 125 = '~network (' '~ABI 4' -- lock --allow-host ok.test -- echo ran
fi
check 'pairs work' 0 =pair -- lock -- perl -e 'socketpair(A, B, 1, 1, 0) or die; print "pair"'
listen='unlink $ARGV[0]; socket(S, 1, 1, 0); bind(S, pack("S a*", 1, $ARGV[0])) or die; listen(S, 9);
    while (accept(C, S)) { close(C) }'
dial='socket(S, 1, 1, 0) or exit 4; exit(connect(S, pack("S a*", 1, $ARGV[0])) ? 0 : 3)'
perl -e "$listen" "$outside/socket" &
server=$!
soon perl -e "$dial" "$outside/socket"
check 'control: a Unix socket is reached outside' 0 -- perl -e "$dial" "$outside/socket"
if [ "$version" -ge 9 ]; then
    check 'not from inside' 3 -- lock -r "$outside" -- perl -e "$dial" "$outside/socket"
    check 'but where it is allowed' 0 -- lock --allow-socket "$outside/socket" -- perl -e "$dial" "$outside/socket"
    own='my $at = pack("S a*", 1, "$ENV{TMPDIR}/s"); socket(S, 1, 1, 0); bind(S, $at) or die; listen(S, 1) or die;
        socket(C, 1, 1, 0); connect(C, $at) or die'
    check 'one of its own is' 0 -- lock -- perl -e "$own"
    # Where calls about sockets are asked about, Landlock judges these all the same.
    check 'beside a way out not from inside' 3 -- \
        lock --allow-host ok.test -r "$outside" -- perl -e "$dial" "$outside/socket"
    check 'but where it is allowed' 0 -- \
        lock --allow-host ok.test --allow-socket "$outside/socket" -- perl -e "$dial" "$outside/socket"
    check 'and one of its own' 0 -- lock --allow-host ok.test -- perl -e "$own"
else
    check 'inside there are none' 4 -- lock -r "$outside" -- perl -e "$dial" "$outside/socket"
    check 'an allowed one is refused, since it would be all' 125 = '~sockets (' '~ABI 9' -- \
        lock --allow-socket "$outside/socket" -- perl -e "$dial" "$outside/socket"
    check 'unless that is accepted' 0 -- \
        lock --allow-socket "$outside/socket" --allow-gap sockets -- perl -e "$dial" "$outside/socket"
fi
kill $server

sleep 300 &
other=$!
if [ "$version" -ge 6 ]; then
    check 'no signal reaches a process outside' 0 =refused -- lock -- perl -e 'print kill(0, $ARGV[0]) ? "sent" : "refused"' $other
    check 'nor is its command line read' 1 = -- lock -- cat /proc/$other/cmdline
fi
check 'control: without a sandbox it is sent' 0 =sent -- perl -e 'print kill(0, $ARGV[0]) ? "sent" : "refused"' $other
kill $other

left() { lock --new-session always -w . -- sh -c 'setsid sleep 4321 & echo $TMPDIR >place'; }
check 'a run that leaves a process behind ends' 0 -- left
check 'and nothing of it is left' 0 -- nobody 'sleep 4321'
check 'nor its private directory' 1 -- test -e "$(cat place)"

# Without namespaces it is what auto takes.
check 'auto builds namespaces where there is no bubblewrap' 0 =ran -- env PATH=/nowhere /usr/bin/sandbox-run -- /bin/echo ran
if [ "$version" -ge 6 ]; then
    check 'a list takes it where there is no bubblewrap' 0 =ran -- env PATH=/nowhere /usr/bin/sandbox-run -b bwrap,landlock -- /bin/echo ran
else
    check 'a list names both reasons' 125 = '~no bwrap' '~processes (' -- env PATH=/nowhere /usr/bin/sandbox-run -b bwrap,landlock -- /bin/echo ran
fi
