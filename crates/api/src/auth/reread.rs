//! A file of credentials that is read again when it changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;

/// What a file looked like when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        // One stat of a local file: shorter than a hand-over to another thread.
        let data = fs::metadata(path)?;
        Ok(Self(data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    }
}

#[derive(Debug)]
struct Known<T> {
    stamp: Stamp,
    content: Arc<T>,
}

/// How the text of a file is read; what is wrong is said in one sentence, without any secret.
type Parse<T> = fn(&str) -> Result<T, String>;

/// A file, as it was when it was last right.
#[derive(Debug)]
pub(super) struct Reread<T> {
    path: PathBuf,
    /// What stands in it, for the log.
    what: &'static str,
    parse: Parse<T>,
    known: Mutex<Known<T>>,
}

impl<T> Reread<T> {
    /// Reads a file; it has to be there and right.
    pub(super) fn open(path: &Path, what: &'static str, parse: Parse<T>) -> io::Result<Self> {
        let known = Mutex::new(read(path, parse)?);
        Ok(Self { path: path.to_owned(), what, parse, known })
    }

    /// What the file has now; while it cannot be read, what it had.
    pub(super) fn current(&self) -> Arc<T> {
        let mut known = self.known.lock();
        let stamp = Stamp::of(&self.path);
        if stamp.as_ref().ok() != Some(&known.stamp) {
            match read(&self.path, self.parse) {
                Ok(new) => *known = new,
                Err(error) => {
                    let what = self.what;
                    tracing::error!(%error, "the {what} cannot be read again: those known before stay valid");
                    // Said once for each state of the file, not at every request.
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
    // The stamp first: a change after it is seen next time.
    let stamp = Stamp::of(path).map_err(within)?;
    let text = fs::read_to_string(path).map_err(within)?;
    let content = parse(&text)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display())))?;
    Ok(Known { stamp, content: Arc::new(content) })
}
