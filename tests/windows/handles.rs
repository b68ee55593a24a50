//! Which handles reach the target: the three standard streams.

#![allow(unsafe_code)]

use std::fs;
use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::Foundation::{HANDLE_FLAG_INHERIT, SetHandleInformation};

use crate::harness::{World, helper};

#[test]
fn no_other_handle_is_inherited() {
    let world = World::new();
    let file = fs::File::create(world.path("open")).expect("file");
    // SAFETY: the handle is open.
    let done = unsafe { SetHandleInformation(file.as_raw_handle(), HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT) };
    assert_ne!(done, 0);
    let mut words = helper("write-to-handle");
    words.push(file.as_raw_handle().addr().to_string());
    // Our own caller's handles come to sandbox-run, and end there; with its output in pipes as well.
    assert_eq!(world.quiet(&words).done().code, 0);
    let piped = [&["--result".to_owned(), "r".to_owned(), "--".to_owned()], &words[..]].concat();
    assert_eq!(world.quiet(piped).done().code, 0);
    assert_eq!(fs::read_to_string(world.path("open")).expect("file"), "");
    // The control: outside it is the file.
    assert_eq!(world.outside(&words).done().code, 0);
    assert_eq!(fs::read_to_string(world.path("open")).expect("file"), "leaked");
}
