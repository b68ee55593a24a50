//! What the command line asks for about a run.

use std::path::{Path, PathBuf};

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Where the result goes.
    pub result: Option<ResultTo>,
    /// Whether output is kept for the result instead of being passed on.
    pub capture: bool,
    /// The file that a line is added to.
    pub audit_log: Option<PathBuf>,
    /// The file that lines about requests are added to.
    pub net_log: Option<PathBuf>,
}

impl Asked {
    /// Whether there is anything to report to.
    #[must_use]
    pub fn any(&self) -> bool {
        self.result.is_some() || self.audit_log.is_some()
    }

    /// The files that are named.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let result = match &self.result {
            Some(ResultTo::File(path)) => Some(path.as_path()),
            Some(ResultTo::Descriptor(_)) | None => None,
        };
        result.into_iter().chain(self.audit_log.as_deref()).chain(self.net_log.as_deref())
    }
}

/// Where the result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultTo {
    /// `--result`; the path is not empty.
    File(PathBuf),
    /// `--result-fd`.
    Descriptor(i32),
}
