//! Crash points: a test may watch each change of the volume, and make it fail, before it is made.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A change of the volume that is either made or not, whatever happens to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A directory is made.
    MakeDirectory,
    /// A file is made, empty.
    MakeFile,
    /// Up to 1 MiB is written.
    Write,
    /// A file's bytes are made durable.
    SyncFile,
    /// A file gets another name.
    Link,
    /// A directory's names are made durable.
    SyncDirectory,
    /// A name is taken away.
    Unlink,
    /// An empty directory is taken away.
    RemoveDirectory,
}

type Hook = dyn Fn(Step, &Path) -> io::Result<()> + Send + Sync;

/// What is asked before each [`Step`]. By default nothing is.
///
/// A hook that fails from some step on leaves the volume as a killed process does: cleaning up is made of steps too. A
/// hook may also block, so that a test can kill the process there.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<Hook>>);

impl Steps {
    /// Asks `hook` before each step with the path that the step is about (of a link, the new name).
    pub fn watched(hook: impl Fn(Step, &Path) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    /// Fails if this step is to fail.
    pub(super) fn before(&self, step: Step, path: &Path) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |hook| hook(step, path))
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "watched" } else { "unwatched" })
    }
}
