//! The times at which the lines of a log were written, with a precision of one second: lines need not contain times.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_core::time::{TimeSpan, Timestamp};

use super::folder::NodeFolder;

/// Least time between two marks, so that a busy log does not get a mark for each line.
const PERIOD: TimeSpan = TimeSpan::from_secs(1);

/// A position in a log file: output after it was written at this time or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeMark {
    at: Timestamp,
    /// Identifies the file, since rotation changes its name.
    inode: u64,
    offset: u64,
}

/// Records the times of a log that is being written.
#[derive(Debug)]
pub(super) struct LogTimes {
    path: PathBuf,
    last: Option<Timestamp>,
}

impl LogTimes {
    pub(super) fn new(folder: &NodeFolder) -> Self {
        Self { path: folder.times(), last: None }
    }

    /// Records the time of the line that begins here. Errors are ignored: a full disk may lose times, but never output.
    pub(super) fn record(&mut self, inode: u64, offset: u64, now: Timestamp) {
        if self.last.is_some_and(|last| last <= now && now.since(last) < PERIOD) {
            return;
        }
        self.last = Some(now);
        let _ = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)
            .and_then(|mut file| writeln!(file, "{} {inode} {offset}", now.micros()));
    }

    /// Drops the times of removed files, before a new file reuses one of their inodes.
    pub(super) fn trim(&mut self, logs: &[PathBuf]) {
        let inodes: Vec<u64> = logs.iter().filter_map(|log| inode(log)).collect();
        let Ok(marks) = read_marks(&self.path) else { return };
        let line = |mark: &TimeMark| format!("{} {} {}\n", mark.at.micros(), mark.inode, mark.offset);
        let left: String = marks.iter().filter(|mark| inodes.contains(&mark.inode)).map(line).collect();
        let _ = fs::write(&self.path, left);
        self.last = None;
    }
}

/// Finds the first line that was written since a time: the index of its file (oldest first) and the offset there;
/// `None` if there is none. Without recorded times, all lines of a file have the time of its last change.
pub(crate) fn find_position_since(
    times: &Path,
    logs: &[PathBuf],
    since: Timestamp,
) -> io::Result<Option<(usize, u64)>> {
    let marks = match read_marks(times) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(logs
                .iter()
                .position(|log| modified_at(log).is_some_and(|at| at >= since))
                .map(|at| (at, 0)));
        }
        marks => marks?,
    };
    let inodes: Vec<Option<u64>> = logs.iter().map(|log| inode(log)).collect();
    let position =
        |mark: &TimeMark| Some((inodes.iter().position(|inode| *inode == Some(mark.inode))?, mark.offset));
    // Lines after a mark, up to the next one, may be up to a second newer than the mark.
    let later = marks.iter().filter(|mark| mark.at.after(PERIOD) > since);
    Ok(later.filter_map(position).min())
}

/// Returns the time of the last change of a file.
pub(crate) fn modified_at(file: &Path) -> Option<Timestamp> {
    let found = fs::metadata(file).ok()?;
    let micros = found.mtime().checked_mul(1_000_000)?.checked_add(found.mtime_nsec() / 1_000)?;
    Some(Timestamp::from_micros(micros))
}

fn inode(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().map(|found| found.ino())
}

/// Reads the marks of a file, and skips lines that a killed shim wrote only in part.
fn read_marks(times: &Path) -> io::Result<Vec<TimeMark>> {
    let mark = |line: &str| {
        let mut numbers = line.split(' ');
        let at = Timestamp::from_micros(numbers.next()?.parse().ok()?);
        let (inode, offset) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(TimeMark { at, inode, offset })
    };
    Ok(fs::read_to_string(times)?.lines().filter_map(mark).collect())
}

#[cfg(test)]
mod tests {
    use muster_core::ids::NodeId;
    use uuid::Uuid;

    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_micros(number * 1_000_000)
    }

    #[test]
    fn lines_are_found_by_the_time_they_were_written() {
        let parent = tempfile::tempdir().unwrap();
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(Uuid::from_u128(7)));
        folder.create().unwrap();
        let mut times = LogTimes::new(&folder);
        fs::write(folder.older_log(1), "one\ntwo\n").unwrap();
        let old = inode(&folder.older_log(1)).unwrap();
        times.record(old, 0, second(10));
        times.record(old, 3, Timestamp::from_micros(10_900_000));
        times.record(old, 4, second(20));
        fs::write(folder.log(), "three\n").unwrap();
        times.record(inode(&folder.log()).unwrap(), 0, second(30));
        let logs = folder.logs().unwrap();
        let found = |number| find_position_since(&folder.times(), &logs, second(number)).unwrap();
        assert_eq!(
            [5, 10, 12, 20, 25, 30].map(found),
            [Some((0, 0)), Some((0, 0)), Some((0, 4)), Some((0, 4)), Some((1, 0)), Some((1, 0)),]
        );
        assert_eq!(found(32), None);
        fs::remove_file(folder.older_log(1)).unwrap();
        times.trim(&folder.logs().unwrap());
        assert_eq!(fs::read_to_string(folder.times()).unwrap().lines().count(), 1);
    }

    #[test]
    fn without_recorded_times_the_last_change_of_the_file_counts() {
        let parent = tempfile::tempdir().unwrap();
        let log = parent.path().join("log");
        fs::write(&log, "one\n").unwrap();
        let (at, none) = (modified_at(&log).unwrap(), parent.path().join("times"));
        let logs = [log];
        assert_eq!(find_position_since(&none, &logs, at).unwrap(), Some((0, 0)));
        assert_eq!(find_position_since(&none, &logs, at.after(PERIOD)).unwrap(), None);
    }
}
