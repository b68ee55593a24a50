//! Makes git recognise repositories again that it recognised before the run: what it passes over lets it obey the next one above, or
//! what the command has made around it.
//!
//! Never goes through a link. What is in the way gets another name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::Path;

use nix::unistd::geteuid;

use super::held::{Held, let_in};
use crate::plan::Plan;
use crate::plan::git::whole::{self, Around, LISTED, PARTS, Whole, head, is_acceptable, is_open};
use crate::sys::acl::{self, List};
use crate::sys::at::{enter, open, through};
use crate::sys::process::describe;

/// After the end of everything inside, and after what leads git elsewhere has been moved aside.
pub fn mend(plan: &Plan) {
    // From above: what lies in a closed directory cannot be reached.
    for (at, mode) in &plan.recognised.ways {
        match open_again(at, *mode) {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "'{}' was closed to its owner during the run and is open again: git would have gone on to a repository above it",
                at.display()
            ),
            Err(error) if is_gone(&error) => {}
            Err(error) => tracing::warn!("'{}' cannot be opened again: {}", at.display(), describe(&error)),
        }
    }
    let mut damaged = BTreeSet::new();
    for (directory, whole) in &plan.recognised.whole {
        let restored = mended(plan, directory, whole);
        if !restored.as_ref().is_ok_and(Vec::is_empty) {
            damaged.insert(directory.as_path());
        }
        match restored {
            Ok(made) if made.is_empty() => {}
            Ok(made) => tracing::warn!(
                "'{}' was damaged during the run, so that git on the host would have passed over it and obeyed another repository: {}",
                directory.display(),
                made.join(", ")
            ),
            Err(error) => tracing::warn!(
                "'{}' was damaged during the run and cannot be mended, so git on the host passes over it and obeys the next repository \
                 that it finds: {}",
                directory.display(),
                describe(&error)
            ),
        }
    }
    for (place, around) in &plan.recognised.around {
        let damaged = !around.whole || damaged.contains(place.join(".git").as_path());
        match unmake(place, *around, damaged) {
            Ok(None) => {}
            Ok(Some(how)) => tracing::warn!(
                "'{}' became a git directory during the run, which git on the host would obey where '.git' is damaged: its 'HEAD' is now {how}",
                place.display()
            ),
            Err(error) if is_gone(&error) => {}
            Err(error) => tracing::warn!(
                "'{}', which git on the host may take for a git directory, cannot be looked at: {}",
                place.display(),
                describe(&error)
            ),
        }
    }
}

/// Whether the host has removed or replaced it: while the command ran it kept its name.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Gives a directory that is closed to its owner the `mode` that it had; whether that was needed.
fn open_again(path: &Path, mode: u32) -> io::Result<bool> {
    let directory = open(path)?;
    let path = through(&directory);
    let now = fs::metadata(&path)?.mode() & 0o7777;
    if now & 0o100 != 0 {
        return Ok(false);
    }
    fs::set_permissions(&path, Permissions::from_mode(mode)).map(|()| true)
}

/// Makes `directory` a git directory again; says what was done.
fn mended(plan: &Plan, directory: &Path, whole: &Whole) -> io::Result<Vec<String>> {
    let held = match open(directory) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        held => held?,
    };
    let mut done = Vec::new();
    let_in(&held, None, || {
        // Before something is made in it, and in what is made.
        let listed = relist(&held, whole)?;
        restore(plan, &held, whole, &mut done)?;
        if reopen(&held, whole)? {
            done.push("others can read it again, and write what they could write".into());
        }
        if listed | relist(&held, whole)? {
            done.push("what is made in it has the permissions again that it had before".into());
        }
        Ok(())
    })?;
    if done.is_empty() || whole::is_recognised(&through(&held)) {
        Ok(done)
    } else {
        Err(io::Error::other("it is not whole yet"))
    }
}

/// Gives directories the lists again with which begins what is made in them; whether one was another.
fn relist(held: &File, whole: &Whole) -> io::Result<bool> {
    let mut changed = false;
    for (name, was) in LISTED.into_iter().zip(&whole.lists) {
        // What is a link, or missing, has none.
        let Ok(part) = enter(held, OsStr::new(name)) else { continue };
        changed |= let_in(&part, None, || {
            if acl::of(&through(&part).join("."), List::Default)? == *was {
                return Ok(false);
            }
            let opened = File::open(through(&part))?;
            match was {
                Some(list) => acl::set(&opened, List::Default, list),
                None => acl::remove(&opened, List::Default),
            }
            .map(|()| true)
        })?;
    }
    Ok(changed)
}

fn restore(plan: &Plan, held: &File, whole: &Whole, done: &mut Vec<String>) -> io::Result<()> {
    let [head_mode, modes @ ..] = whole.modes;
    for ((name, was), mode) in PARTS.into_iter().zip(&whole.parts).zip(modes) {
        let now = whole::Part::at(&through(held).join(name));
        // A link can lead somewhere else to whoever asks next.
        let other = matches!(now, Some(whole::Part::Link(_))) && now.as_ref() != Some(was);
        if is_open(&through(held).join(name)) && !other {
            continue;
        }
        let part = Part::of(held, name)?;
        if matches!(now, Some(whole::Part::Directory(..))) {
            part.permit(mode)?;
            done.push(format!("'{name}' is open again"));
            continue;
        }
        let moved = moved(plan, &part.held.path, was);
        let aside = part.move_aside()?;
        if let Some(place) = moved {
            place.rename_to(held, OsStr::new(name))?;
            if !is_open(&part.held.path) {
                part.permit(mode)?;
            }
            done.push(format!("'{name}' is back in its place{aside}"));
            continue;
        }
        match was {
            // One that is what it was leads to nothing.
            whole::Part::Link(text) if now.as_ref() != Some(was) => {
                symlink(text, &part.held.path)?;
                done.push(format!("'{name}' is the link again that it was{aside}"));
            }
            whole::Part::Directory(..) | whole::Part::Link(_) => {
                fs::create_dir(&part.held.path)?;
                part.permit(mode)?;
                done.push(format!("'{name}' is made anew{aside}"));
            }
        }
        part.give_to_owner()?;
    }
    if head(&through(held)).is_none() {
        let part = Part::of(held, "HEAD")?;
        let aside = part.move_aside()?;
        let link = match write(&part.held.path, &whole.head, head_mode) {
            Ok(()) => "",
            Err(error) => {
                // One that says half of it could name something else.
                drop(fs::remove_file(&part.held.path));
                let branch = branch(&whole.head).filter(|_| is_full(&error)).ok_or(error)?;
                symlink(branch, &part.held.path)?;
                ", as a link, since the disk is full"
            }
        };
        part.give_to_owner()?;
        done.push(format!("'HEAD' says again what it said before{link}{aside}"));
    }
    Ok(())
}

/// Lets those use a shared repository who could before: to git of others it would be none, or not theirs to write. Whether one could not.
fn reopen(held: &File, whole: &Whole) -> io::Result<bool> {
    let Some(mode) = whole.shared else { return Ok(false) };
    let mut changed = lend(held, mode, true)?;
    for (name, mode) in ["HEAD", PARTS[0], PARTS[1]].into_iter().zip(whole.modes) {
        // What is a link was one.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = || OpenOptions::new().read(true).custom_flags(flags).open(through(held).join(name));
        if let Ok(part) = enter(held, OsStr::new(name)).or_else(|_| file()) {
            // git writes another `HEAD` each time, with the permissions of whoever it is.
            changed |= lend(&part, mode, name != "HEAD")?;
        }
    }
    Ok(changed)
}

/// Gives back what group and others could do, with or without writing; whether they could not.
fn lend(file: &File, mode: u32, writing: bool) -> io::Result<bool> {
    let now = fs::metadata(through(file))?.mode() & 0o7777;
    let lost = mode & !now & if writing { 0o2077 } else { 0o055 };
    if lost != 0 {
        fs::set_permissions(through(file), Permissions::from_mode(now | lost))?;
    }
    Ok(lost != 0)
}

fn write(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What git's old form of a `HEAD` leads to, which needs no room for a text.
fn branch(head: &[u8]) -> Option<&Path> {
    let branch = Path::new(OsStr::from_bytes(head.strip_prefix(b"ref:")?.trim_ascii()));
    whole::is_branch(branch).then_some(branch)
}

/// A name in a git directory.
struct Part {
    name: &'static str,
    held: Held,
    owner: (u32, u32),
}

impl Part {
    fn of(directory: &File, name: &'static str) -> io::Result<Self> {
        let data = fs::metadata(through(directory))?;
        let held = Held::in_directory(directory.try_clone()?, OsStr::new(name));
        Ok(Self { name, held, owner: (data.uid(), data.gid()) })
    }

    /// Takes away what has the name; says where it is now.
    fn move_aside(&self) -> io::Result<String> {
        match self.held.rename(OsStr::new(self.name)) {
            Ok(new) => Ok(format!(" and what had the name is now '{}'", new.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            // In a closed directory nothing has been done.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
            // On a full disk a file makes room for the new one.
            Err(_) => self.held.disarm(OsStr::new(self.name)).map(|how| format!(" and what had the name is {how}")),
        }
    }

    /// Gives the directory these permissions.
    fn permit(&self, mode: u32) -> io::Result<()> {
        let inner = enter(&self.held.directory, OsStr::new(self.name))?;
        fs::set_permissions(through(&inner), Permissions::from_mode(mode))
    }

    /// Root makes things in other users' directories, where they are to be used.
    fn give_to_owner(&self) -> io::Result<()> {
        let (user, group) = self.owner;
        if geteuid().is_root() { lchown(&self.held.path, Some(user), Some(group)) } else { Ok(()) }
    }
}

/// The directory that was `part` and to which the link in its place leads, where the command could have moved it.
fn moved(plan: &Plan, link: &Path, part: &whole::Part) -> Option<Held> {
    let place = fs::canonicalize(link).ok()?;
    let granted = plan.writable().any(|grant| place != grant && place.starts_with(grant));
    let held = Held::of(&place).ok().filter(|_| granted)?;
    (whole::Part::at(&held.path).as_ref() == Some(part)).then_some(held)
}

/// Makes a directory no git directory; says how, if it has become one.
fn unmake(place: &Path, around: Around, damaged: bool) -> io::Result<Option<String>> {
    let held = open(place)?;
    // Where git reads `.git` it reads no other, and what was there before is somebody's.
    if !is_acceptable(&through(&held), damaged) || around.acceptable && !damaged {
        return Ok(None);
    }
    let name = Held::in_directory(held, OsStr::new("HEAD"));
    let_in(&name.directory, None, || match name.rename(OsStr::new("HEAD")) {
        Ok(new) => Ok(Some(format!("'{}'", new.display()))),
        // On a full disk.
        Err(_) => name.disarm(OsStr::new("HEAD")).map(|how| Some(how.to_owned())),
    })
}
