//! Processes that are not of the run are left alone.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fakes::nap;
use crate::harness::{World, processes_with, program};

#[test]
fn children_from_before_are_not_ours_to_end() {
    let world = World::new();
    let program = program();
    let program = program.to_str().unwrap();
    for (words, code) in
        [("sh -c 'sleep 100 & exit 7'", 7), ("-q -b none sh -c 'exit 7'", 7), ("-r missing true", 125), ("--check", 0)]
    {
        let nap = nap();
        let script = format!("sleep {nap} >/dev/null 2>&1 & exec {program} {words}");
        world.call("sh", ["-c", &script]).done().code(code);
        let left = processes_with(&nap);
        assert_eq!(left.len(), 1, "{words}: the caller's own child was ended");
        kill(Pid::from_raw(left[0]), Signal::SIGKILL).unwrap();
    }
}
