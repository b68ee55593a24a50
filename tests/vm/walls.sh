# shellcheck shell=sh disable=SC2016,SC2154
# What Landlock keeps where the kernel has it. Where it has less of it or none: kept otherwise, or refused by name.

version=$(landlock)
# has_landlock: whether the kernel has what this boot is about.
has_landlock() {
    case $(cat /proc/cmdline) in *lsm=*) [ "$version" = -1 ] && return ;; esac
    case $(uname -r) in
    6.1.*) [ "$version" = 2 ] ;;
    *) [ "$version" -ge 6 ] ;;
    esac
}
check "Landlock has version $version" 0 -- has_landlock

# attempt FILE COMMAND...: runs a command with a file to read, and prints what the file holds then. A run that is
# refused for want of a protection is as good as one that cannot change it.
attempt() {
    file=$1
    shift
    echo kept >"$file"
    "$@" <"$file" 2>"/tmp/why.$who"
    cat "$file"
}
check 'a file for reading cannot be opened anew for writing' 0 =kept -- \
    attempt f sandbox-run -q -- sh -c 'echo over >/proc/self/fd/0'
check 'control: without a sandbox it can' 0 =over -- attempt f sh -c 'echo over >/proc/self/fd/0'
# By its name; and by opening it for reading and emptying, which is no writing to the Landlock of version 2.
for empty in 'truncate("/proc/self/fd/0", 0)' 'sysopen(F, "/proc/self/fd/0", 01000)'; do
    call=${empty%%(*}
    check "a file for reading cannot be emptied by $call" 0 =kept -- attempt f sandbox-run -q -- perl -e "$empty"
    check "control: without a sandbox $call does it" 0 = -- attempt f perl -e "$empty"
done
echo kept >f
sandbox-run -q -- sh -c 'echo over >/proc/self/fd/1' >f
check 'control: one for writing can be opened anew' 0 =over -- cat f

# With everything else in the group that signals go to.
signals() {
    setsid sh -c 'sleep 60 & "$@" >/dev/null 2>&1; kill -0 $! 2>/dev/null && echo lives; kill -9 $! 2>/dev/null' - "$@"
}
check 'signals to the own process group reach nothing outside' 0 =lives -- \
    signals sandbox-run -q --new-session never -- sh -c 'trap "" TERM; kill -TERM 0'
check 'control: without a sandbox they do' 143 = -- signals sh -c 'trap "" TERM; kill -TERM 0; sleep 0.5'

# An abstract socket of the host: reachable with the network of the host, unless Landlock closes it.
listen='socket(S, 1, 1, 0); bind(S, pack("S a*", 1, "\0sandbox-run-vm")) or die; listen(S, 9);
    while (accept(C, S)) { close(C) }'
dial='socket(S, 1, 1, 0); exit(connect(S, pack("S a*", 1, "\0sandbox-run-vm")) ? 0 : 3)'
perl -e "$listen" &
server=$!
soon perl -e "$dial"
check 'control: an abstract socket is reached outside' 0 -- perl -e "$dial"
check 'not from inside' 3 -- sandbox-run -- perl -e "$dial"
if [ "$version" -ge 6 ]; then
    check 'nor with the network of the host' 3 -- sandbox-run --net host -- perl -e "$dial"
else
    check 'with the network of the host that is refused' 125 = '~sockets' '~hint: --allow-gap sockets' -- \
        sandbox-run --net host -- echo ran
    check 'unless it is accepted, and then said' 0 '~not enforced, as accepted: sockets' -- \
        sandbox-run --net host --allow-gap sockets -- perl -e "$dial"
fi
kill $server
