# shellcheck shell=sh disable=SC2016,SC2154
# User namespaces switched off: bubblewrap cannot start, and the hint names the switch; Landlock does without.

run() { sandbox-run -b bwrap -- echo ran; }
users_run() { as_user sandbox-run -b bwrap -- echo ran; }
mkdir shared && chown 1000:1000 shared
cd shared || exit

switch=/proc/sys/user/max_user_namespaces
before=$(cat $switch)
check 'control: root can run' 0 =ran -- run
check 'control: a user can run' 0 =ran -- users_run
echo 0 >$switch
check 'no user namespaces for anybody: root is refused' 125 = ~user.max_user_namespaces=0 -- run
check 'and a user is' 125 = '~hint: ' ~user.max_user_namespaces=0 -- users_run
if [ "$(landlock)" -ge 6 ]; then
    check 'only Landlock works, says the check' 0 '+bwrap: does not work here' '+remedy: ' \
        '+auto takes: landlock' -- as_user sandbox-run --check
    check 'and it is taken' 0 =ran -- as_user sandbox-run -- echo ran
else
    check 'nothing works, says the check' 125 '+bwrap: does not work here' '+remedy: ' \
        '+auto finds nothing that works here' -- as_user sandbox-run --check
    [ "$(landlock)" = -1 ] && other='Landlock is switched off' || other='processes ('
    check 'and both reasons are named' 125 = ~user.max_user_namespaces=0 "~$other" -- as_user sandbox-run -- echo ran
fi
check 'only no sandbox at all does, by name' 0 =ran -- as_user sandbox-run -q -b none -- echo ran
echo "$before" >$switch
check 'control: root can run again' 0 =ran -- run

# Debian's own.
switch=/proc/sys/kernel/unprivileged_userns_clone
if [ -e $switch ]; then
    before=$(cat $switch)
    echo 0 >$switch
    check 'none for ordinary users: a user is refused' 125 = ~kernel.unprivileged_userns_clone -- users_run
    check 'control: root can run' 0 =ran -- run
    echo "$before" >$switch
fi
check 'control: a user can run again' 0 =ran -- users_run
