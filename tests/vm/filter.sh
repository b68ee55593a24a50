# shellcheck shell=sh disable=SC2016,SC2154
# The system-call filter refuses what its table says on this machine's own call numbers, and nothing beside it.

case $(uname -m) in
x86_64) column=2 ;;
*) column=3 ;;
esac

# name, number on x86_64, on aarch64, error inside; arguments that harm nobody if the call should go through.
calls='
ptrace 101 117 EPERM 0xffff
unshare 272 97 EPERM 0x10000000
clone 56 220 EPERM 0x10000011
clone3 435 435 ENOSYS 0 0
setns 308 268 EPERM -1
mount 165 40 EPERM 0 0 0 0 0
umount2 166 39 EPERM 0
pivot_root 155 41 EPERM 0 0
chroot 161 51 EPERM 0
open_tree 428 428 EPERM -1 0 0
move_mount 429 429 EPERM -1 0 -1 0 0
fsopen 430 430 EPERM 0 0
mount_setattr 442 442 EPERM -1 0 0 0 0
open_by_handle_at 304 265 EPERM -1 0 0
process_vm_readv 310 270 EPERM -1 0 0 0 0 0
process_vm_writev 311 271 EPERM -1 0 0 0 0 0
process_madvise 440 440 EPERM -1 0 0 0 0
kcmp 312 272 EPERM -1 -1 -1
pidfd_getfd 438 438 EPERM -1 -1 0
add_key 248 217 EPERM 0 0 0 0 0
request_key 249 218 EPERM 0 0 0 0
keyctl 250 219 EPERM 0xffff
bpf 321 280 EPERM 0xffff 0 0
perf_event_open 298 241 EPERM 0 0 -1 -1 0
fanotify_init 300 262 EPERM 0xffffffff 0
userfaultfd 323 282 EPERM 0xffffffff
io_uring_setup 425 425 ENOSYS 0 0
io_uring_enter 426 426 ENOSYS -1 0 0 0 0
io_uring_register 427 427 ENOSYS -1 0 0 0
clock_settime 227 112 EPERM -1 0
settimeofday 164 170 EPERM 1 1
reboot 169 142 EPERM 0 0 0 0
kexec_load 246 104 EPERM 0 0 0 -1
swapon 167 224 EPERM 0 0
quotactl 179 60 EPERM 0xffffffff 0 0 0
syslog 103 116 EPERM 0xffff 0 0
sethostname 170 161 EPERM 0 -1
init_module 175 105 EPERM 0 0 0
finit_module 313 273 EPERM -1 0 -1
delete_module 176 106 EPERM 0 0
personality 135 92 EPERM 0x0400000
socket.vsock 41 198 EPERM 40 1 0
socket.packet 41 198 EPERM 17 3 0
socket.alg 41 198 EPERM 38 5 0
socket.audit 41 198 EPERM 16 3 9
socketpair.vsock 53 199 EPERM 40 1 0 0
ioctl.TIOCSTI 16 29 EPERM 0 0x5412 0
ioctl.TIOCLINUX 16 29 EPERM 0 0x541c 0
ioctl.TIOCSTI_high 16 29 EPERM 0 0x100005412 0
'
# Prints `name error` of each call, in a process of its own: one that goes through may do anything.
attempt='my $column = shift;
    for (grep { /\S/ } split /\n/, shift) {
        my ($name, @rest) = split; my $number = $rest[$column - 2];
        my @words = map { $_ =~ /^0x/ ? hex : $_ + 0 } @rest[3 .. $#rest];
        my $pid = fork;
        if (!$pid) {
            $! = 0;
            my $result = @words == 0 ? syscall($number) : @words == 1 ? syscall($number, $words[0])
                : @words == 2 ? syscall($number, @words[0, 1]) : @words == 3 ? syscall($number, @words[0 .. 2])
                : syscall($number, $words[0], $words[1], $words[2], $words[3], $words[4] // 0);
            exit 0 if $result == -1 && $! == 1; exit 38 if $result == -1 && $! == 38; exit 99;
        }
        waitpid($pid, 0);
        print "$name ", { 0 => "EPERM", 38 << 8 => "ENOSYS", 99 << 8 => "other" }->{$?} // "ended by $?", "\n";
    }'
expected=$(echo "$calls" | awk 'NF { print $1, $4 }')
check 'every refused call gives its error' 0 -- sh -c '
    sandbox-run -- perl -e "$1" "$2" "$3" >answers && echo "$4" >wanted && diff wanted answers' - \
    "$attempt" $column "$calls" "$expected"

# The control: outside, where root is refused nothing, the same calls get past the number.
if [ "$who" = root ]; then
    chosen=$(echo "$calls" | grep -E '^(ptrace|clone3|setns|open_by_handle_at|process_vm_readv|keyctl|add_key|bpf|clock_settime|quotactl|personality|socket.packet|mount|open_tree) ')
    perl -e "$attempt" $column "$chosen" >outside 2>&1
    check 'control: outside they are not refused' 1 -- grep -E 'EPERM|ENOSYS' outside
    check 'control: and they were tried' 0 -- test "$(grep -c other outside)" -ge 12
fi

check 'sockets that programs need' 0 =123 -- sandbox-run -- perl -e '
    socket(A, 1, 1, 0) or die; socket(B, 2, 1, 0) or die; socket(C, 10, 2, 0) or die; socket(D, 16, 3, 0) or die;
    socketpair(E, F, 1, 1, 0) or die; print 123'
check 'children, pipes and signals' 0 =child -- sandbox-run -- perl -e '
    $SIG{USR1} = sub { print "child" }; defined(my $pid = fork) or die; if (!$pid) { kill USR1 => getppid; exit }
    sleep 5; waitpid($pid, 0)'
