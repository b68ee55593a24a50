# shellcheck shell=sh disable=SC2154
# AppArmor allows a user namespace and nothing in it: refused with the step and the cause, and auto goes on.

users_run() { as_user sandbox-run "$@" -- echo ran; }
mkdir shared && chown 1000:1000 shared
cd shared || exit

policy=/sys/kernel/security/apparmor
[ -d /sys/kernel/security/apparmor ] || mount -t securityfs security /sys/kernel/security
for backend in bwrap namespace; do
    check "$backend: control: a user can run" 0 =ran -- users_run -b $backend
done
cat /cases/apparmor >$policy/.load
check 'the policy is loaded' 0 -- grep '^sandbox-run (enforce)' $policy/profiles
check 'bwrap: a user is refused' 125 = '~hint: ' '~uid map' -- users_run -b bwrap
check 'namespace: a user is refused' 125 = '~hint: ' '~cannot map the user into a namespace: ' -- users_run -b namespace
if [ "$(landlock)" -ge 6 ]; then
    check 'only Landlock works, says the check' 0 '+bwrap: does not work here' '+namespace: does not work here' \
        '+auto takes: landlock' -- as_user sandbox-run --check
    check 'and it is taken' 0 =ran -- users_run
else
    check 'nothing works, and each reason is named' 125 = '~uid map' '~cannot map the user' '~processes (' -- users_run
fi
check 'no process is left' 0 -- soon nobody '^sandbox-run|^bwrap'
printf sandbox-run >$policy/.remove
for backend in bwrap namespace; do
    check "$backend: control: without the policy a user can run again" 0 =ran -- users_run -b $backend
done
