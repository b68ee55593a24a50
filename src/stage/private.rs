//! The directory of one run where nothing is mounted: private directories of the target, and what the launcher reads.
//!
//! Made for this run alone and removed with all that the target has put there, also when this process is killed. Never goes
//! through a link.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, renameat};
use nix::sys::signal::SigSet;
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::backend::Backend;
use crate::error::{Error, Kind, Result};
use crate::plan::Plan;
use crate::sys;
use crate::sys::at::{enter, open, through};
use crate::sys::process::describe;

/// How long is waited for processes that still write there, when the run is over.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same where this process was killed, and the inner stage still has to end the target.
const AFTER_DEATH: Duration = Duration::from_secs(10);

/// The directory of a run, until it is removed.
#[derive(Debug)]
pub struct Private {
    root: PathBuf,
    /// Closed when this process is gone, which its guardian sees. Told when there is nothing left to guard.
    lifeline: Option<OwnedFd>,
}

impl Private {
    /// The number in the name of such a directory, for a backend that has one; nobody can foresee it.
    pub fn number(backend: Backend) -> Result<Option<u64>> {
        if backend != Backend::Seatbelt {
            return Ok(None);
        }
        let mut random = [0; 8];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
        read.map_err(|error| {
            Error::text(Kind::Backend, format!("cannot name a directory for the run: {}", describe(&error)))
        })?;
        Ok(Some(u64::from_ne_bytes(random)))
    }

    /// Makes the private directories of `plan`; `None` where it has none on the host.
    pub fn of(plan: &Plan) -> io::Result<Option<Self>> {
        let places: Vec<_> = plan.private_places().collect();
        let Some(root) = places.first().and_then(|first| first.parent()) else { return Ok(None) };
        Self::make(root, &places).map(Some)
    }

    /// Makes `root`, which must not be there, and `places` in it.
    pub(super) fn make(root: &Path, places: &[&Path]) -> io::Result<Self> {
        // One that is there already is somebody's trap.
        private(root)?;
        let lifeline = guard(root).inspect_err(|error| {
            tracing::debug!("nothing removes '{}' if this process is killed: {error}", root.display());
        });
        let made = Self { root: root.to_owned(), lifeline: lifeline.ok() };
        for place in places {
            if place.parent() != Some(root) {
                return Err(io::Error::other(format!("'{}' is not in the directory of the run", place.display())));
            }
            private(place)?;
        }
        Ok(made)
    }

    /// A file of this name and content that only this user can read, in the part that the target does not see.
    pub fn file(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        File::options().write(true).create_new(true).mode(0o600).open(&path)?.write_all(text.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Err(error) = clear(&self.root, PATIENCE) {
            tracing::warn!("the private directory '{}' of the run stays: {}", self.root.display(), describe(&error));
        } else if let Some(lifeline) = &self.lifeline {
            // There is nothing left to guard, and what has this name next is not its business.
            let _told = nix::unistd::write(lifeline, b"r");
        }
    }
}

/// Makes a directory that only this user can enter.
fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Starts a process that removes `root` when this one is gone, however it ends; it sees that by the descriptor.
fn guard(root: &Path) -> io::Result<OwnedFd> {
    let (told, lifeline) = sys::fd::pipe()?;
    let end = lifeline.as_raw_fd();
    sys::process::detached(|| {
        // Nothing that is sent to everybody shall end it.
        let _blocked = SigSet::all().thread_block();
        drop(sys::fd::adopt(end));
        let _silent = sys::fd::silence(&[0, 1, 2]);
        let _closed = sys::fd::close_others(&[told.as_raw_fd()]);
        let _elsewhere = nix::unistd::chdir("/");
        let mut word = nix::unistd::read(&told, &mut [0]);
        while word == Err(Errno::EINTR) {
            word = nix::unistd::read(&told, &mut [0]);
        }
        // Closed without a word: that process is gone.
        if word == Ok(0) {
            let _removed = clear(root, AFTER_DEATH);
        }
    })?;
    Ok(lifeline)
}

/// Removes `root` and all that is in it, for `patience` if somebody makes more meanwhile.
///
/// Directories that are deep down are moved up, so that no depth takes more descriptors, memory or longer paths.
pub(super) fn clear(root: &Path, patience: Duration) -> io::Result<()> {
    let until = Instant::now() + patience;
    let top = match open(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        top => top?,
    };
    let mut count = 0_u64;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            return fs::remove_dir(root);
        }
        for name in names {
            if let Err(error) = remove(&top, &name, &mut count)
                && Instant::now() > until
            {
                return Err(error);
            }
        }
    }
}

/// Removes one name in `top`; the directories in it are moved beside it.
fn remove(top: &File, name: &OsStr, count: &mut u64) -> io::Result<()> {
    if !is_directory(top, name)? {
        return unlink(top, name, UnlinkatFlags::NoRemoveDir);
    }
    lay_open(top, name)?;
    let directory = enter(top, name)?;
    for inner in names(&directory)? {
        if is_directory(&directory, &inner)? {
            lay_open(&directory, &inner)?;
            *count += 1;
            // No name of the target's is at the top.
            renameat(&directory, inner.as_os_str(), top, format!("moved-{count}").as_str())?;
        } else {
            unlink(&directory, &inner, UnlinkatFlags::NoRemoveDir)?;
        }
    }
    unlink(top, name, UnlinkatFlags::RemoveDir)
}

fn names(directory: &File) -> io::Result<Vec<OsString>> {
    fs::read_dir(through(directory))?.map(|entry| Ok(entry?.file_name())).collect()
}

fn is_directory(above: &File, name: &OsStr) -> io::Result<bool> {
    let found = fstatat(above, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR)
}

/// Lets us do with a directory what the target may have forbidden to itself.
fn lay_open(above: &File, name: &OsStr) -> io::Result<()> {
    let _free = sys::at::free(&through(above).join(name));
    Ok(fchmodat(above, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?)
}

fn unlink(above: &File, name: &OsStr, what: UnlinkatFlags) -> io::Result<()> {
    match unlinkat(above, name, what) {
        // Marked as what cannot be removed.
        Err(Errno::EPERM) if sys::at::free(&through(above).join(name)).is_ok() => Ok(unlinkat(above, name, what)?),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    /// A directory of a run in one of the test.
    fn made(above: &Path) -> Private {
        let root = above.join("run");
        Private::make(&root, &[&root.join("tmp"), &root.join("home")]).unwrap()
    }

    #[test]
    fn everything_is_the_users_alone_and_goes_with_it() {
        let above = tempfile::tempdir().unwrap();
        let run = made(above.path());
        let file = run.file("profile", "(version 1)").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"(version 1)");
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&file), 0o600);
        for part in ["run", "run/tmp", "run/home"] {
            assert_eq!(mode(&above.path().join(part)), 0o700, "{part}");
        }
        // Nobody sees it from a place that the target has.
        assert_eq!(file.parent(), Some(above.path().join("run").as_path()));
        drop(run);
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_already_is_nobodys_run() {
        let above = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), above.path().join("run")).unwrap();
        let root = above.path().join("run");
        let error = Private::make(&root, &[&root.join("tmp")]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(fs::symlink_metadata(&root).unwrap().is_symlink(), "and it stays");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_file(&root).unwrap();
        // A place elsewhere is none of the run's; what was made goes.
        assert!(Private::make(&root, &[&elsewhere.path().join("tmp")]).is_err());
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        let run = made(above.path());
        run.file("profile", "one").unwrap();
        assert_eq!(run.file("profile", "two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn whatever_the_target_has_made_there_is_removed_and_nothing_else() {
        let above = tempfile::tempdir().unwrap();
        let outside = above.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o500)).unwrap();
        let run = made(above.path());
        let tmp = above.path().join("run/tmp");
        symlink(&outside, tmp.join("link")).unwrap();
        symlink("nowhere", tmp.join("dangling")).unwrap();
        fs::hard_link(outside.join("kept"), tmp.join("second")).unwrap();
        for name in ["a/b/c", "a/b/d", "same/same", "moved-1/moved-2"] {
            fs::create_dir_all(tmp.join(name)).unwrap();
            fs::write(tmp.join(name).join("file"), "text").unwrap();
            symlink(&outside, tmp.join(name).join("link")).unwrap();
        }
        for (name, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o000), ("same/same/file", 0o000), ("", 0o000)] {
            fs::set_permissions(tmp.join(name), Permissions::from_mode(mode)).unwrap();
        }
        drop(run);
        assert!(fs::symlink_metadata(above.path().join("run")).is_err());
        assert_eq!(fs::read(outside.join("kept")).unwrap(), b"kept");
        assert_eq!(fs::metadata(&outside).unwrap().mode() & 0o7777, 0o500, "nothing is done through a link");
        fs::set_permissions(&outside, Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn no_depth_is_too_deep() {
        let above = tempfile::tempdir().unwrap();
        let run = made(above.path());
        let mut directory = open(&above.path().join("run/home")).unwrap();
        for _ in 0..1500 {
            nix::sys::stat::mkdirat(&directory, "d", Mode::S_IRWXU).unwrap();
            directory = enter(&directory, OsStr::new("d")).unwrap();
        }
        drop(directory);
        drop(run);
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }

    #[test]
    fn it_goes_when_whoever_made_it_is_killed() {
        let above = tempfile::tempdir().unwrap();
        let (ready, told) = sys::fd::pipe().unwrap();
        let maker = sys::process::fork(|| {
            let run = made(above.path());
            fs::write(above.path().join("run/tmp/file"), "text").unwrap();
            nix::unistd::write(&told, b"r").unwrap();
            // For as long as it lives.
            let _run = run;
            loop {
                nix::unistd::pause();
            }
        });
        let maker = maker.unwrap();
        drop(told);
        assert_eq!(nix::unistd::read(&ready, &mut [0]), Ok(1));
        assert!(fs::symlink_metadata(above.path().join("run/tmp/file")).is_ok());
        nix::sys::signal::kill(maker, nix::sys::signal::Signal::SIGKILL).unwrap();
        nix::sys::wait::waitpid(maker, None).unwrap();
        let until = Instant::now() + AFTER_DEATH;
        while fs::symlink_metadata(above.path().join("run")).is_ok() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
