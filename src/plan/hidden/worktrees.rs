//! What git says about hidden names: which stay visible because git has their content anyway.
//!
//! Asks only the repository in whose work tree a name lies, and that only once a hidden name has been met. Well-known secrets
//! are hidden whatever git says. Changes nothing.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::super::base;
use super::super::tracked::{Budget, State, Tracked};

/// What came of it, for whoever has to tell.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Shown, since git has the same: files, and directories that hold such.
    pub shown: Vec<PathBuf>,
    /// Tracked and hidden all the same, since the content is another.
    pub changed: Vec<PathBuf>,
    /// Tracked and hidden all the same, as well-known secrets.
    pub secret: Vec<PathBuf>,
    /// `.git`s that could not be asked, and why.
    pub unread: Vec<(PathBuf, String)>,
}

/// Work trees by number.
#[derive(Debug, Default)]
pub(super) struct Worktrees {
    trees: Vec<Tree>,
    numbers: HashMap<PathBuf, usize>,
    budget: Budget,
    pub(super) told: Told,
}

#[derive(Debug)]
struct Tree {
    top: PathBuf,
    /// `None` until somebody asks.
    tracked: Option<Tracked>,
    /// Names of files that are what git has.
    same: BTreeSet<PathBuf>,
}

/// What to do with a hidden name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Hide,
    Show,
    /// Show a directory for what in it is to be shown, and hide the rest of it.
    Enter,
}

impl Worktrees {
    /// A number for the work tree with a `.git` in `top`.
    pub(super) fn at(&mut self, top: &Path) -> usize {
        let next = self.trees.len();
        let number = *self.numbers.entry(top.to_owned()).or_insert(next);
        if number == next {
            self.trees.push(Tree { top: top.to_owned(), tracked: None, same: BTreeSet::new() });
        }
        number
    }

    /// What becomes of `path`, a hidden name in the work tree of this number or anything in one that is entered.
    pub(super) fn verdict(&mut self, number: usize, path: &Path, secret: bool, entered: bool) -> Verdict {
        let Some(tree) = self.trees.get_mut(number) else { return Verdict::Hide };
        let Ok(name) = path.strip_prefix(&tree.top) else { return Verdict::Hide };
        let told = &mut self.told;
        let tracked = tree.tracked.get_or_insert_with(|| {
            let dot_git = tree.top.join(".git");
            Tracked::read(&dot_git, &mut self.budget).unwrap_or_else(|reason| {
                told.unread.push((dot_git, reason));
                Tracked::default()
            })
        });
        if secret {
            told.secret.extend(tracked.below(name).next().map(|_| path.to_owned()));
            return Verdict::Hide;
        }
        if !entered {
            for below in tracked.below(name) {
                if !self.budget.look(below) {
                    told.changed.push(path.to_owned());
                    break;
                }
                if is_secret(&tree.top, below) {
                    continue;
                }
                match tracked.state(&tree.top, below, &mut self.budget) {
                    State::Same => drop(tree.same.insert(below.to_owned())),
                    State::Changed => told.changed.push(tree.top.join(below)),
                    State::Gone => {}
                }
            }
        }
        let first = tree.same.range(name.to_owned()..).next().filter(|same| same.starts_with(name));
        let verdict = match first {
            Some(same) if same == name => Verdict::Show,
            Some(_) => Verdict::Enter,
            None => Verdict::Hide,
        };
        if verdict != Verdict::Hide && !entered {
            told.shown.push(path.to_owned());
        }
        verdict
    }
}

/// Whether `name` or a directory on the way to it, from `top`, is a well-known secret that git's word does not show.
fn is_secret(top: &Path, name: &Path) -> bool {
    name.ancestors().any(|part| {
        let path = top.join(part);
        let secret = path.parent().zip(path.file_name()).and_then(|(directory, name)| base::secret(directory, name));
        part != Path::new("") && secret.is_some_and(|secret| !secret.committed)
    })
}
