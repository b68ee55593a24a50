//! Cost of the system-call filter: to build it, to load it, and on each call of the target.
//!
//! `cargo bench --bench filter [-- ROUNDS]`. Prints medians; each load is one in a process of its own.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::expect_used, clippy::cast_precision_loss)]

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::Instant;

use sandbox_run::seccomp::{self, Options};
use sandbox_run::sys;

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(200);
    let options = Options { own_group: true, shared_group: true, as_root: true, ..Options::default() };
    println!("{} instructions", seccomp::program(options).len());
    let build = median((0..rounds).map(|_| micros(|| drop(black_box(seccomp::program(options))))));
    let load = median((0..rounds).map(|_| {
        in_child(|| {
            let program = seccomp::program(options);
            nix::sys::prctl::set_no_new_privs().expect("no_new_privs");
            micros(|| sys::filter::load(&program).expect("loads"))
        })
    }));
    println!("build {build:.1} µs, load {load:.1} µs, together {:.1} µs", build + load);
    for (name, call) in CALLS {
        let cost = |filtered| {
            median((0..=rounds / 10).map(|_| {
                in_child(|| {
                    if filtered {
                        nix::sys::prctl::set_no_new_privs().expect("no_new_privs");
                        sys::filter::load(&seccomp::program(options)).expect("loads");
                    }
                    micros(|| (0..10_000).for_each(|_| call())) / 10.0
                })
            }))
        };
        let (bare, filtered) = (cost(false), cost(true));
        println!("{name}: {bare:.0} ns without, {filtered:.0} ns with, ratio {:.2}", filtered / bare);
    }
}

/// One that is always allowed, and three whose arguments count.
const CALLS: [(&str, fn()); 4] = [
    ("getppid", || {
        black_box(nix::unistd::getppid());
    }),
    ("ioctl", || {
        black_box(std::io::IsTerminal::is_terminal(&std::io::stdin()));
    }),
    ("openat and close", || drop(black_box(File::open("/dev/null")))),
    ("socket and close", || drop(black_box(std::os::unix::net::UnixDatagram::unbound()))),
];

fn micros(action: impl FnOnce()) -> f64 {
    let start = Instant::now();
    action();
    start.elapsed().as_secs_f64() * 1e6
}

fn median(times: impl Iterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// What `action` finds in a copy of this process.
fn in_child(action: impl FnOnce() -> f64) -> f64 {
    let (reader, writer) = nix::unistd::pipe().expect("pipe");
    let child = sys::process::fork(|| {
        let found = action();
        File::from(writer).write_all(&found.to_ne_bytes()).expect("pipe");
        sys::process::exit_now(0);
    })
    .expect("fork");
    let mut bytes = [0; 8];
    File::from(reader).read_exact(&mut bytes).expect("the child's answer");
    nix::sys::wait::waitpid(child, None).expect("wait");
    f64::from_ne_bytes(bytes)
}
