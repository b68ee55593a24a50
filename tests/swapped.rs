//! What others put in the place of a granted path while a run starts gives the command nothing that was not granted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::harness::{World, backends, has_view};

/// Sets what it holds when it goes, also when a check has failed.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while two names are exchanged for each other all the time, and leaves them as they were.
fn while_exchanged(one: &Path, other: &Path, work: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    let exchange = || renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE).expect("exchange");
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                exchange();
                std::thread::sleep(std::time::Duration::from_micros(90));
                exchange();
                std::thread::sleep(std::time::Duration::from_micros(90));
            }
        });
        work();
    });
}

/// A directory above the granted one becomes a link to a place of secrets, into which no link may lead, and a directory again.
#[test]
fn a_link_on_the_way_to_a_grant_leads_nowhere() {
    let world = World::new();
    world.dir("home/.ssh/in");
    world.write("home/.ssh/in/id", "secret");
    world.dir("o/tree/pub/in");
    world.write("o/tree/pub/in/id", "open");
    let link = world.link("o/tree/link", "../../home/.ssh");
    let granted = world.path("o/tree/pub");
    let script = "cat ../o/tree/pub/in/id; echo x >../o/tree/pub/in/made";
    for backend in backends().filter(|backend| has_view(backend) || backend.contains(&"landlock")) {
        for grant in ["-r", "-w"] {
            let words = [&backend[..], &[grant, "../o/tree/pub/in", "sh", "-c", script]].concat();
            let run = || world.run(&words).done();
            // The control.
            run().stdout("open");
            assert_eq!(world.has("o/tree/pub/in/made"), grant == "-w", "{words:?}");
            while_exchanged(&granted, &link, || {
                for _ in 0..30 {
                    let done = run();
                    let _done = done.stdout_lacks("secret");
                    assert!(!world.has("home/.ssh/in/made"), "{words:?}");
                }
            });
            run().stdout("open");
        }
        std::fs::remove_file(world.path("o/tree/pub/in/made")).expect("made");
    }
}
