# shellcheck shell=sh disable=SC2016,SC2154
# Containers by podman, where the control groups are the kernel's newer ones and nobody else's: limits hold, and of no run
# is anything left.

# At the top podman would move all processes of the machine to a group of their own.
if [ "$who" = root ]; then
    mkdir /sys/fs/cgroup/caller
    echo $$ >/sys/fs/cgroup/caller/cgroup.procs
fi
place=${PWD%/*}/podman
mkdir -p "$place" "$HOME"
mkdir -m 700 "$place/session"
export TMPDIR="$place" XDG_RUNTIME_DIR="$place/session"
export CONTAINERS_CONF="$place/containers.conf" CONTAINERS_STORAGE_CONF="$place/storage.conf"
cat >"$CONTAINERS_CONF" <<CONF
[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
CONF
cat >"$CONTAINERS_STORAGE_CONF" <<CONF
[storage]
driver = "vfs"
graphroot = "$place/root"
runroot = "$place/run"
rootless_storage_path = "$place/root"
CONF
# An image out of what the machine has, as in tests/containers/hold.
mkdir -p "$place/image/bin" "$place/image/tmp"
# shellcheck disable=SC2046 # a list of names
tar -C / -cf - $(cat /cases/image) | tar -C "$place/image" -xf -
for name in sh dd sleep; do
    ln -s /usr/bin/busybox "$place/image/bin/$name"
done
import() { tar -C "$place/image" -cf - . | podman import -q --change 'ENV PATH=/bin' - sandbox-run-test; }
check 'an image is made' 0 -- import
run() { sandbox-run -b podman --image sandbox-run-test "$@"; }

check 'an engine keeps limits on memory and processes' 0 '+container: works' '+memory: enforced' '+procs: enforced' -- \
    sandbox-run --check --image sandbox-run-test

take='dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null && echo taken'
check 'a command that takes too much memory is killed' 137 = -- run --memory 96M --result r -- sh -c "$take; sleep 86403"
check 'and the result says why' 0 -- grep -q '"limits_hit":\["memory-limit"\]' r
check 'control: with another limit it is not' 0 =taken -- run --memory 400M --result r -- sh -c "$take"
check 'and its result says so' 0 -- grep -q '"limits_hit":\[\]' r

many='i=0; while [ $i -lt 30 ]; do sleep 86403 & i=$((i + 1)); done; echo all'
check 'processes are bounded' 2 = '~fork' -- run --max-procs 20 --result r -- sh -c "$many"
check 'and the result says why' 0 -- grep -q '"limits_hit":\["process-limit"\]' r
# A start takes seconds here: the rest is the same for everybody.
if [ "$who" = root ]; then
    check 'control: with another limit there are more' 0 =all -- run --max-procs 60 -- sh -c "$many"
    check 'a bomb of processes is held and ended' 124 -- run -q --max-procs 20 --timeout 2 --kill-after 0.5 -- \
        sh -c 'b() { b 2>/dev/null | b 2>/dev/null & }; b; exec sleep 86403'
    check 'processor time is that of the tree, with a group' 152 = -- run -q --timeout 60 --max-procs 60 --cpu-time 3 -- \
        sh -c 'for i in 1 2 3 4; do while :; do :; done & done; wait; echo over'
    check 'control: time that is not used does not count' 3 -- run --max-procs 60 --cpu-time 2 -- sh -c 'sleep 2.5; exit 3'
fi

# Those that podman keeps for itself are no run's.
groups() { find /sys/fs/cgroup -mindepth 1 -type d ! -name caller ! -name libpod_parent ! -name conmon ! -path '*/delegated*'; }
containers() { [ -z "$(podman ps -a -q --filter label=sandbox-run)" ]; }
directories() { [ -z "$(ls -d "$place"/session/sandbox-run-* 2>/dev/null)" ]; }
nothing_left() {
    check "$1: no process is left" 0 -- soon nobody 'sleep 86403'
    check "$1: no container is left" 0 -- soon containers
    check "$1: no group is left" 0 -- soon no_groups
    check "$1: no directory is left" 0 -- soon directories
}
nothing_left 'of runs that ended'

# Not by a function, whose number is that of a shell.
sandbox-run -b podman --image sandbox-run-test --memory 96M --max-procs 20 -- sh -c 'sleep 86403 & sleep 86403' &
run=$!
check 'control: a run has begun' 0 -- soon somebody '^sleep 86403'
check 'control: it has a group' 1 -- no_groups
kill -KILL $run
wait $run
nothing_left 'of a run that was killed'
