//! A file of credentials that is reloaded when it changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;

/// Identifies a version of a file: inode, size and time of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        // One stat of a local file takes less time than handing it to another thread.
        let data = fs::metadata(path)?;
        Ok(Self(data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    }
}

#[derive(Debug)]
struct Known<T> {
    stamp: Stamp,
    content: Arc<T>,
}

/// Parses the text of a file; the error is one sentence and contains no secret.
type Parse<T> = fn(&str) -> Result<T, String>;

/// The last valid content of a file.
#[derive(Debug)]
pub(super) struct ReloadedFile<T> {
    path: PathBuf,
    /// What the file contains, for the log.
    what: &'static str,
    parse: Parse<T>,
    known: Mutex<Known<T>>,
}

impl<T> ReloadedFile<T> {
    /// Reads a file, which has to exist and be valid.
    pub(super) fn open(path: &Path, what: &'static str, parse: Parse<T>) -> io::Result<Self> {
        let known = Mutex::new(read(path, parse)?);
        Ok(Self { path: path.to_owned(), what, parse, known })
    }

    /// The present content of the file, or the last valid one while it cannot be read.
    pub(super) fn current(&self) -> Arc<T> {
        let mut known = self.known.lock();
        let stamp = Stamp::of(&self.path);
        if stamp.as_ref().ok() != Some(&known.stamp) {
            match read(&self.path, self.parse) {
                Ok(new) => *known = new,
                Err(error) => {
                    let what = self.what;
                    tracing::error!(%error, "the {what} cannot be read again: those known before stay valid");
                    // Logged once for each version of the file, not at every request.
                    if let Ok(stamp) = stamp {
                        known.stamp = stamp;
                    }
                }
            }
        }
        Arc::clone(&known.content)
    }
}

fn read<T>(path: &Path, parse: Parse<T>) -> io::Result<Known<T>> {
    let within = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // The stamp is read first, so that a later change is noticed next time.
    let stamp = Stamp::of(path).map_err(within)?;
    let text = fs::read_to_string(path).map_err(within)?;
    let content = parse(&text)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display())))?;
    Ok(Known { stamp, content: Arc::new(content) })
}
