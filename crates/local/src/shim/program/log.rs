//! The log of a node, with rotation.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use muster_engine::ports::clock::{Clock as _, SystemClock};

use crate::shim::folder::NodeFolder;
use crate::shim::launch::LogLimits;
use crate::shim::log_times::LogTimes;

/// The smallest limit of a log file: smaller files would be rotated all the time.
const MIN_FILE_BYTES: u64 = 4096;

/// Writes the output of a node to files. Disk errors lose output, but never stop the node.
#[derive(Debug)]
pub(super) struct LogWriter {
    folder: NodeFolder,
    limits: LogLimits,
    file: Option<File>,
    inode: u64,
    size: u64,
    times: LogTimes,
    /// True if the next byte begins a line.
    at_line_start: bool,
    lost_bytes: u64,
    loss_reason: Option<io::Error>,
}

impl LogWriter {
    /// Opens the log and appends to an existing one.
    pub(super) fn open(folder: &NodeFolder, limits: LogLimits) -> Self {
        let limits = LogLimits { max_bytes: limits.max_bytes.max(MIN_FILE_BYTES), ..limits };
        let mut log = Self {
            folder: folder.clone(),
            limits,
            file: None,
            inode: 0,
            size: 0,
            times: LogTimes::new(folder),
            at_line_start: true,
            lost_bytes: 0,
            loss_reason: None,
        };
        if let Err(error) = log.reopen() {
            log.loss_reason = Some(error);
        }
        log
    }

    /// Writes output, and rotates full files.
    pub(super) fn write(&mut self, mut output: &[u8]) {
        while !output.is_empty() {
            let room = usize::try_from(self.limits.max_bytes.saturating_sub(self.size)).unwrap_or(usize::MAX);
            let (now, later) = output.split_at(bytes_that_fit(output, room, self.size == 0));
            if now.is_empty() {
                self.rotate();
            } else {
                self.append(now);
            }
            output = later;
        }
    }

    fn append(&mut self, output: &[u8]) {
        let written = self.log_lost_output().and_then(|()| self.write_to_file(output));
        if let Err(error) = written {
            self.lost_bytes += output.len() as u64;
            // Counts lost bytes as written, so that rotation removes the oldest file and frees space on a full disk.
            self.size += output.len() as u64;
            self.loss_reason = Some(error);
        }
    }

    fn write_to_file(&mut self, output: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        if self.at_line_start {
            self.times.record(self.inode, self.size, SystemClock.now());
        }
        file.write_all(output)?;
        self.size += output.len() as u64;
        self.at_line_start = output.ends_with(b"\n");
        Ok(())
    }

    /// Writes a line into the log that says how much output was lost.
    pub(super) fn log_lost_output(&mut self) -> io::Result<()> {
        if self.lost_bytes == 0 {
            return Ok(());
        }
        let why = self.loss_reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        self.write_to_file(
            format!("\n[muster] {} bytes of output are missing here{why}\n", self.lost_bytes).as_bytes(),
        )?;
        (self.lost_bytes, self.loss_reason) = (0, None);
        Ok(())
    }

    /// Removes rotated files, to free space on a full disk.
    pub(super) fn remove_older_logs(&self) {
        for age in 1..=self.limits.keep {
            let _ = fs::remove_file(self.folder.older_log(age));
        }
    }

    fn rotate(&mut self) {
        self.file = None;
        self.size = 0;
        let LogLimits { keep, .. } = self.limits;
        // Errors are ignored: a missing file needs no rename, and writing continues in any case.
        for age in (1..keep).rev() {
            let _ = fs::rename(self.folder.older_log(age), self.folder.older_log(age + 1));
        }
        let log = self.folder.log();
        let moved = if keep == 0 { fs::remove_file(log) } else { fs::rename(log, self.folder.older_log(1)) };
        // A new file may reuse the inode of a removed one.
        self.times.trim(&self.folder.logs().unwrap_or_default());
        if let Err(error) = moved.and_then(|()| self.reopen()) {
            self.loss_reason = Some(error);
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.log())?;
        let found = file.metadata()?;
        (self.size, self.inode) = (found.len(), found.ino());
        self.file = Some(file);
        Ok(())
    }
}

/// Returns the number of bytes of `output` to write to a file with this much room. Lines are kept whole, except for a
/// line that is longer than an empty file.
fn bytes_that_fit(output: &[u8], room: usize, is_empty: bool) -> usize {
    if output.len() <= room {
        return output.len();
    }
    let lines = output[..room].iter().rposition(|byte| *byte == b'\n').map(|newline| newline + 1);
    lines.unwrap_or(if is_empty { room } else { 0 })
}

#[cfg(test)]
mod tests {
    use muster_core::ids::NodeId;
    use rstest::rstest;
    use tempfile::TempDir;

    use super::*;

    fn folder() -> (TempDir, NodeFolder) {
        let parent = tempfile::tempdir().unwrap();
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        folder.create().unwrap();
        (parent, folder)
    }

    fn read(path: std::path::PathBuf) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[rstest]
    #[case::all(b"a\nb\n", 4, true, 4)]
    #[case::whole_lines(b"a\nb\n", 3, true, 2)]
    #[case::not_even_one_line(b"abcd", 3, false, 0)]
    #[case::a_line_that_no_file_holds(b"abcd", 3, true, 3)]
    #[case::full(b"a\n", 0, false, 0)]
    fn a_file_ends_with_a_whole_line(
        #[case] output: &[u8],
        #[case] room: usize,
        #[case] is_empty: bool,
        #[case] expected: usize,
    ) {
        assert_eq!(bytes_that_fit(output, room, is_empty), expected);
    }

    #[test]
    fn full_files_are_rotated_and_the_oldest_is_removed() {
        let (_parent, folder) = folder();
        let mut log = LogWriter::open(&folder, LogLimits { max_bytes: MIN_FILE_BYTES, keep: 2 });
        for line in 0..5u8 {
            log.write(&[vec![b'0' + line; 3999], vec![b'\n']].concat());
        }
        assert!(read(folder.log()).starts_with('4'));
        assert!(read(folder.older_log(1)).starts_with('3'));
        assert!(read(folder.older_log(2)).starts_with('2'));
        assert!(!folder.older_log(3).exists());
    }

    #[test]
    fn without_rotated_files_a_full_log_is_replaced() {
        let (_parent, folder) = folder();
        let mut log = LogWriter::open(&folder, LogLimits { max_bytes: MIN_FILE_BYTES, keep: 0 });
        log.write(&[b'a'; 4096]);
        log.write(b"b\n");
        assert_eq!(read(folder.log()), "b\n");
        assert!(!folder.older_log(1).exists());
    }

    #[test]
    fn a_reopened_log_is_appended_to() {
        let (_parent, folder) = folder();
        LogWriter::open(&folder, LogLimits::default()).write(b"a\n");
        LogWriter::open(&folder, LogLimits::default()).write(b"b\n");
        assert_eq!(read(folder.log()), "a\nb\n");
    }

    #[test]
    fn output_that_a_full_disk_lost_is_reported_in_the_log_once_there_is_space() {
        let (_parent, folder) = folder();
        let mut log = LogWriter::open(&folder, LogLimits::default());
        log.write(b"a\n");
        let disk = log.file.replace(File::options().write(true).open("/dev/full").unwrap());
        log.write(b"lost\n");
        log.write(b"lost too\n");
        log.file = disk;
        log.write(b"b\n");
        assert_eq!(
            read(folder.log()),
            "a\n\n[muster] 14 bytes of output are missing here: No space left on device (os error 28)\nb\n"
        );
    }
}
