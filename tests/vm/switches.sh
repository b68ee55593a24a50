# shellcheck shell=sh disable=SC2016,SC2154
# User namespaces switched off: neither bubblewrap nor we can make any, and the hint names the switch; Landlock does without.

run() { sandbox-run -b "$1" -- echo ran; }
users_run() { as_user sandbox-run -b "$1" -- echo ran; }
mkdir shared && chown 1000:1000 shared
cd shared || exit

switch=/proc/sys/user/max_user_namespaces
before=$(cat $switch)
for backend in bwrap namespace; do
    check "$backend: control: root can run" 0 =ran -- run $backend
    check "$backend: control: a user can run" 0 =ran -- users_run $backend
    echo 0 >$switch
    check "$backend: no user namespaces for anybody: root is refused" 125 = ~user.max_user_namespaces=0 -- run $backend
    check "$backend: and a user is" 125 = '~hint: ' ~user.max_user_namespaces=0 -- users_run $backend
    echo "$before" >$switch
done
echo 0 >$switch
if [ "$(landlock)" -ge 6 ]; then
    check 'only Landlock works, says the check' 0 '+bwrap: does not work here' '+namespace: does not work here' '+remedy: ' \
        '+auto takes: landlock' -- as_user sandbox-run --check
    check 'and it is taken' 0 =ran -- as_user sandbox-run -- echo ran
else
    check 'nothing works, says the check' 125 '+bwrap: does not work here' '+namespace: does not work here' '+remedy: ' \
        '+auto finds nothing that works here' -- as_user sandbox-run --check
    [ "$(landlock)" = -1 ] && other='Landlock is switched off' || other='processes ('
    check 'and both reasons are named' 125 = ~user.max_user_namespaces=0 "~$other" -- as_user sandbox-run -- echo ran
fi
check 'only no sandbox at all does, by name' 0 =ran -- as_user sandbox-run -q -b none -- echo ran
echo "$before" >$switch
check 'control: root can run again' 0 =ran -- run bwrap

# Debian's own.
switch=/proc/sys/kernel/unprivileged_userns_clone
if [ -e $switch ]; then
    before=$(cat $switch)
    echo 0 >$switch
    for backend in bwrap namespace; do
        check "$backend: none for ordinary users: a user is refused" 125 = ~kernel.unprivileged_userns_clone -- users_run $backend
        check "$backend: control: root can run" 0 =ran -- run $backend
    done
    echo "$before" >$switch
fi
for backend in bwrap namespace; do
    check "$backend: control: a user can run again" 0 =ran -- users_run $backend
done
