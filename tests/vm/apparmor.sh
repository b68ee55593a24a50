# shellcheck shell=sh disable=SC2154
# AppArmor allows a user namespace and nothing in it: refused with the cause, and auto goes on.

users_run() { as_user sandbox-run "$@" -- echo ran; }
mkdir shared && chown 1000:1000 shared
cd shared || exit

policy=/sys/kernel/security/apparmor
[ -d $policy ] || mount -t securityfs security /sys/kernel/security
for backend in bwrap namespace; do
    check "$backend: control: a user can run" 0 =ran -- users_run -b $backend
done
cat /cases/apparmor >$policy/.load
check 'the policy is loaded' 0 -- grep '^sandbox-run (enforce)' $policy/profiles
for backend in bwrap namespace; do
    check "$backend: a user is refused, and the hint says by whom" 125 = '~hint: an AppArmor profile' -- users_run -b $backend
done
if [ "$(landlock)" -ge 6 ]; then
    check 'only Landlock works, says the check' 0 '+bwrap: does not work here' '+namespace: does not work here' \
        '+auto takes: landlock' -- as_user sandbox-run --check
    check 'and it is taken' 0 =ran -- users_run
else
    [ "$(landlock)" = -1 ] && other='Landlock is switched off' || other='processes ('
    check 'nothing works, and each reason is named' 125 = "~'bwrap'" "~'namespace'" "~$other" '~hint: an AppArmor profile' -- users_run
fi
check 'no process is left' 0 -- soon nobody '^sandbox-run|^bwrap'
printf sandbox-run >$policy/.remove
for backend in bwrap namespace; do
    check "$backend: control: without the policy a user can run again" 0 =ran -- users_run -b $backend
done
