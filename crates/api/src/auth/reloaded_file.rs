//! A file of credentials that is reloaded when it changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// Identifies a version of a file: inode, size and time of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        // A blocking call: one stat of a local file takes less time than passing it to another thread.
        let data = fs::metadata(path)?;
        Ok(Self(data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
    }
}

/// A failed reload: the version of the file, none if there is no file, and the kind of the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReloadFailure(Option<Stamp>, io::ErrorKind);

#[derive(Debug)]
struct Known<T> {
    /// The version that was read last and was valid.
    stamp: Stamp,
    content: Arc<T>,
    /// The last failure since then, which was logged.
    failure: Option<ReloadFailure>,
}

/// Parses the text of a file; the error is one sentence and contains no secret.
type Parse<T> = fn(&str) -> Result<T, String>;

/// The last valid content of a file.
#[derive(Debug)]
pub(super) struct ReloadedFile<T> {
    path: PathBuf,
    /// The kind of content, for the log.
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

    /// Returns the present content of the file, or the last valid content while the file cannot be read.
    pub(super) fn current(&self) -> Arc<T> {
        let mut known = self.known.lock();
        if let Some(error) = self.reload(&mut known) {
            let what = self.what;
            tracing::error!(%error, "cannot reload the {what}; the previous ones stay valid");
        }
        Arc::clone(&known.content)
    }

    /// Reads the file if it has changed. Returns an error that differs from the last one, so that a failure that
    /// persists is logged once, not at every request.
    fn reload(&self, known: &mut Known<T>) -> Option<io::Error> {
        let stamp = Stamp::of(&self.path).ok();
        if stamp == Some(known.stamp) {
            known.failure = None;
            return None;
        }
        // Invalid text stays invalid until it changes. Other failures may end without a change of the file.
        if stamp.is_some() && known.failure == Some(ReloadFailure(stamp, io::ErrorKind::InvalidData)) {
            return None;
        }
        match read(&self.path, self.parse) {
            Ok(new) => {
                *known = new;
                None
            }
            Err(error) => {
                let failure = Some(ReloadFailure(stamp, error.kind()));
                let is_known = known.failure == failure;
                known.failure = failure;
                (!is_known).then_some(error)
            }
        }
    }
}

fn read<T>(path: &Path, parse: Parse<T>) -> io::Result<Known<T>> {
    let within = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // Read the stamp first, so that a change during the read is noticed at the next request.
    let stamp = Stamp::of(path).map_err(within)?;
    let text = fs::read_to_string(path).map_err(within)?;
    let content = parse(&text)
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display())))?;
    Ok(Known { stamp, content: Arc::new(content), failure: None })
}

/// Parses TOML. The error has the line but not its text, and no value of another type than expected, since these may be
/// secrets.
pub(super) fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let message = error.message();
        let expected = message.strip_prefix("invalid ").and_then(|rest| rest.rsplit_once(", expected "));
        match expected {
            Some((_, expected)) => format!("line {line}: expected {expected}"),
            None => format!("line {line}: {message}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        if text == "bad" { Err("it is bad".to_owned()) } else { Ok(text.to_owned()) }
    }

    fn reload(file: &ReloadedFile<String>) -> Option<String> {
        file.reload(&mut file.known.lock()).map(|error| error.to_string())
    }

    #[test]
    fn a_failure_is_reported_once_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "first").unwrap();
        let file = ReloadedFile::open(&path, "lines", parse).unwrap();
        assert_eq!(reload(&file), None);

        for _ in 0..2 {
            fs::remove_file(&path).unwrap();
            assert!(reload(&file).is_some_and(|error| error.contains("No such file")));
            assert_eq!(reload(&file), None, "the file is still missing");
            assert_eq!(*file.current(), "first");

            fs::write(&path, "bad").unwrap();
            assert!(reload(&file).is_some_and(|error| error.contains("it is bad")));
            assert_eq!(reload(&file), None, "the file is still bad");
        }

        fs::write(&path, "second").unwrap();
        assert_eq!((reload(&file), file.current().as_str()), (None, "second"));
    }

    #[test]
    fn a_file_that_could_not_be_read_is_tried_again_although_it_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "first").unwrap();
        let file = ReloadedFile::open(&path, "lines", parse).unwrap();
        fs::write(&path, "second").unwrap();
        let stamp = Stamp::of(&path).unwrap();
        file.known.lock().failure = Some(ReloadFailure(Some(stamp), io::ErrorKind::PermissionDenied));
        assert_eq!((reload(&file), file.current().as_str()), (None, "second"));
    }
}
