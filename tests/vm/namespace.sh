# shellcheck shell=sh disable=SC2016,SC2154
# Namespaces of our own on this kernel: by the calls that it has, and by those of Linux 5.4 alone.

# Every call that came later is missing from here on: openat2, mount_setattr, close_range, Landlock and what the C library tries first.
past='my @filter = ([0x20, 0, 0, 0], [0x35, 0, 1, 435], [0x06, 0, 0, 0x00050026], [0x06, 0, 0, 0x7fff0000]);
    my $code = join "", map { pack "S C C L", @$_ } @filter;
    my $prctl = `uname -m` =~ /x86_64/ ? 157 : 167;
    syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, pack("S x6 P", 4, $code)) == 0 or die "no filter: $!";
    exec @ARGV or die'
run_new() { sandbox-run -b namespace "$@"; }
run_old() { perl -e "$past" sandbox-run -b namespace "$@"; }
openat2='syscall(437, -1, 0, 0, 0); exit($! + 0)'
check 'control: the older calls are all that is there' 38 -- perl -e "$past" perl -e "$openat2"
check 'control: the newer ones are there otherwise' 22 -- perl -e "$openat2"

# In the user namespace of a process, or in this one: another one. The status is the number of the error.
case $(uname -m) in aarch64) calls='(268, 97)' ;; *) calls='(308, 272)' ;; esac
further='my ($setns, $unshare) = '$calls'; my ($place) = @ARGV;
    if ($place) { open(F, "<", $place) or exit 99; syscall($setns, fileno(F), 0x10000000) == 0 or exit 98 }
    exit(syscall($unshare, 0x10000000) == 0 ? 0 : $! + 0)'

check 'it works here, says the check' 0 '+namespace: works' -- sandbox-run --check
mounts() { cut -d ' ' -f 5- /proc/self/mountinfo | sort; }
mounts >"$outside/before"
[ "$who" != root ] || { mkdir "$outside/mounted" && mount -t tmpfs below "$outside/mounted"; }
echo s3cret >"$outside/secret"
echo s3cret >"$outside/hidden"
mkdir -p "$outside/closed" && echo s3cret >"$outside/closed/file"
perl -e 'socket(S, 2, 1, 0); setsockopt(S, 1, 2, pack("i", 1)); bind(S, pack("S n C4 x8", 2, 4712, 127, 0, 0, 1));
    listen(S, 9); while (accept(C, S)) { close(C) }' &
server=$!
dial='socket(S, 2, 1, 0); exit(connect(S, pack("S n C4 x8", 2, 4712, 127, 0, 0, 1)) ? 0 : 3)'
local='socket(S, 2, 1, 0); bind(S, pack("S n C4 x8", 2, 4712, 127, 0, 0, 1)) or die; listen(S, 9);
    socket(C, 2, 1, 0); connect(C, pack("S n C4 x8", 2, 4712, 127, 0, 0, 1)) or die; print "local"'
soon perl -e "$dial"

for way in new old; do
    run=run_$way
    check "$way calls: output and status" 7 =inside -- $run -- sh -c 'echo inside; exit 7'
    check "$way calls: a file outside is not there" 1 = '~No such file' -- $run -- cat "$outside/secret"
    check "$way calls: control: it is with a read grant" 0 =s3cret -- $run -r "$outside" -- cat "$outside/secret"
    check "$way calls: a read grant cannot be written" 1 '~Read-only file system' -- $run -r "$outside" -- touch "$outside/made"
    check "$way calls: nor a directory of the system" 1 '~Read-only file system' -- $run -- touch /usr/made
    check "$way calls: nor the root directory" 1 '~Read-only file system' -- $run -- touch /made
    check "$way calls: nor /dev" 1 '~Read-only file system' -- $run -- touch /dev/made
    if [ "$who" = root ]; then
        check "$way calls: nor what is mounted below a grant" 1 '~Read-only file system' -- \
            $run -r "$outside" -- touch "$outside/mounted/made"
        check "$way calls: control: with a write grant it can be" 0 -- $run -w "$outside" -- touch "$outside/mounted/made"
    fi
    check "$way calls: control: a write grant can be written" 0 -- $run -w . -- touch "made-$way"
    check "$way calls: and that is on the host" 0 -- test -e "made-$way"
    check "$way calls: the whole host for reading" 0 =s3cret -- $run -q -r / --mask /tmp -- cat "$outside/secret"
    check "$way calls: and not for writing" 1 '~Read-only file system' -- $run -q -r / -- touch "$outside/made"
    check "$way calls: masks hide a file and a directory" 0 =0 -- $run -r "$outside" --mask "$outside/hidden" \
        --mask "$outside/closed" -- sh -c 'cat "$0/hidden" "$0"/closed/* 2>/dev/null | wc -c' "$outside"
    check "$way calls: a protected file stays" 1 '~Read-only file system' -- $run -w "$outside" --protect "$outside/hidden" -- \
        sh -c 'echo over >"$0/hidden" || exit 1' "$outside"
    check "$way calls: /tmp is private, empty and can be written" 0 =mine -- \
        $run -- sh -c 'cd /tmp && [ -z "$(ls -A)" ] && echo mine >mine && cat mine'
    check "$way calls: and not there outside" 1 -- test -e /tmp/mine
    check "$way calls: its processes are its own" 0 '=1 2' -- $run -- sh -c 'cd /proc && echo [0-9]*'
    check "$way calls: process 1 shows nothing" 0 = -- $run -- \
        sh -c '{ cat /proc/1/environ /proc/1/maps; ls /proc/1/root/ /proc/1/cwd/; readlink /proc/1/exe /proc/1/fd/*; } 2>/dev/null; tr -d "\\0" </proc/1/cmdline'
    check "$way calls: the name of the host is its own" 0 =localhost -- $run -- cat /proc/sys/kernel/hostname
    check "$way calls: and cannot be changed" 1 = -- $run -- \
        sh -c '{ echo other >/proc/sys/kernel/hostname; } 2>/dev/null && exit; exit 1'
    check "$way calls: no capability in any set, and none to come" 0 '=0000000000000000 1' -- $run -- \
        awk '/^Cap/ { seen[$2] } /^NoNewPrivs/ { last = $2 } END { for (set in seen) print set, last }' /proc/self/status
    check "$way calls: no other namespace" 1 -- $run -- unshare -U true
    check "$way calls: the network of the host is out of reach" 3 -- $run -- perl -e "$dial"
    check "$way calls: there is one interface, and it works" 0 =local -- $run -- \
        sh -c '[ "$(grep -c : /proc/net/dev)" = 1 ] && perl -e "$0"' "$local"
    check "$way calls: control: the host's network where that is asked for" 0 -- \
        $run -q --net host --allow-gap sockets -- perl -e "$dial"

    # Without the filter, which is not there for whoever comes from outside: the kernel's own limit.
    $run -- sleep 86403 &
    soon somebody '^sleep 86403'
    inside=$(running '^sleep 86403')
    check "$way calls: one more user namespace in its own is one too many" 28 -- perl -e "$further" "/proc/$inside/ns/user"
    check "$way calls: control: in that of the host it is not" 0 -- perl -e "$further"
    kill "$inside"
    wait $!
    check "$way calls: no process is left" 0 -- soon nobody 'sleep 86403'
done
kill $server
[ "$who" != root ] || umount "$outside/mounted"
mounts >"$outside/after"
check 'nothing is mounted on the host afterwards' 0 -- cmp "$outside/before" "$outside/after"
