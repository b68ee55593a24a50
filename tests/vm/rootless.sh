# shellcheck shell=sh
# Becomes PROGRAM, which becomes a user, at the top of a hierarchy of control groups that is given to that user: as root.
#
#   sh rootless.sh PROGRAM [ARG]...
set -e
if [ -z "$below" ]; then
    group=/sys/fs/cgroup/rootless
    mkdir $group
    echo $$ >$group/cgroup.procs
    below=yes exec unshare -C -m --propagation private sh "$0" "$@"
fi
unset below
umount /sys/fs/cgroup
mount -t cgroup2 groups /sys/fs/cgroup
# A group with processes of its own passes no controller on.
mkdir /sys/fs/cgroup/caller
echo $$ >/sys/fs/cgroup/caller/cgroup.procs
echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
for name in . cgroup.procs cgroup.subtree_control cgroup.threads caller caller/cgroup.procs; do
    chown 1000:1000 "/sys/fs/cgroup/$name"
done
exec "$@"
