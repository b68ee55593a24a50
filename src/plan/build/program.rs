//! What the target needs to start, added to a view: its file, its interpreter, the links of the way.
//!
//! Shows nothing that a mask or a place of secrets hides: then the target is not found.

use super::super::target::{Needed, Target};
use super::super::view::{FileKind, Rule};
use super::{Builder, reserved};
use crate::error::{Error, Kind, Result};

impl Builder<'_> {
    /// The target and its interpreter: each file alone and each link of the way.
    pub fn program(&mut self, target: &Target) -> Result<()> {
        for needed in &target.files {
            let (Needed::Link { at, .. } | Needed::File(at) | Needed::Directory(at)) = needed;
            // What is there differs by who looks: to the process that becomes the target, our own program and descriptors.
            if at.starts_with("/proc") {
                let (word, at) = (target.word.display(), at.display());
                let text = format!("cannot execute '{word}': '{at}' is not the same file inside");
                return Err(Error::text(Kind::NotExecutable, text).hint(
                    "COMMAND and the interpreter of its '#!' line need a name that does not lead through /proc",
                ));
            }
            if reserved(at) {
                continue;
            }
            if self.shows_processes(at) {
                let text = format!(
                    "cannot find '{}': '{}' lies in another /proc of the host, which no option shows",
                    target.word.display(),
                    at.display()
                );
                return Err(Error::text(Kind::Hidden, text));
            }
            // A hidden name shows the file that is asked for by name; a mask does not.
            if let Some((mask, rule)) = self.view.decides(at)
                && rule.hides()
                && *rule != Rule::Hidden
            {
                return Err(Error::text(
                    Kind::Hidden,
                    format!(
                        "cannot find '{}': '{}' exists on the host and is hidden by the mask on '{}'",
                        target.word.display(),
                        at.display(),
                        mask.display()
                    ),
                )
                .hint(if mask == at {
                    format!("leave out the mask on '{}'", at.display())
                } else {
                    format!("--read '{}' shows this file, or leave out the mask", at.display())
                }));
            }
            if self.view.shows(at) {
                continue;
            }
            // Whoever wrote the script or the link would have chosen what is shown. A directory is an empty one.
            let named = !matches!(needed, Needed::Directory(_));
            if let Some((place, what)) = self.secrets.above(at).filter(|_| named) {
                return Err(Error::text(
                    Kind::Hidden,
                    format!(
                        "cannot find '{}': '{}' exists on the host and is hidden: '{}' holds {what}",
                        target.word.display(),
                        at.display(),
                        place.display()
                    ),
                )
                .hint(format!("--read '{}' shows this file", at.display())));
            }
            match needed {
                Needed::Link { at, text } => {
                    self.view.add(at, Rule::Link { text: text.clone() }, FileKind::File);
                }
                Needed::File(at) => self.view.add(at, Rule::Program, FileKind::File),
                Needed::Directory(at) => self.view.add(at, Rule::Folder, FileKind::Directory),
            }
        }
        Ok(())
    }
}
