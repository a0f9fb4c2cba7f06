//! The log of a node, which is begun anew when it is full.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use crate::shim::folder::NodeFolder;
use crate::shim::launch::LogLimits;

/// Less than this in a file would be rotation and no log.
const LEAST: u64 = 4096;

/// Where a node's output goes. A disk that is full, or gone, costs output and never the node.
#[derive(Debug)]
pub(super) struct Log {
    folder: NodeFolder,
    limits: LogLimits,
    file: Option<File>,
    size: u64,
    lost: u64,
    why: Option<io::Error>,
}

impl Log {
    /// Goes on with the log that is there.
    pub(super) fn open(folder: &NodeFolder, limits: LogLimits) -> Self {
        let limits = LogLimits { max_bytes: limits.max_bytes.max(LEAST), ..limits };
        let mut log = Self { folder: folder.clone(), limits, file: None, size: 0, lost: 0, why: None };
        if let Err(error) = log.reopen() {
            log.why = Some(error);
        }
        log
    }

    /// Adds output.
    pub(super) fn write(&mut self, mut output: &[u8]) {
        while !output.is_empty() {
            let room = usize::try_from(self.limits.max_bytes.saturating_sub(self.size)).unwrap_or(usize::MAX);
            let (now, later) = output.split_at(fitting(output, room, self.size == 0));
            if now.is_empty() {
                self.rotate();
            } else {
                self.append(now);
            }
            output = later;
        }
    }

    fn append(&mut self, output: &[u8]) {
        let written = self.note_loss().and_then(|()| self.put(output));
        if let Err(error) = written {
            self.lost += output.len() as u64;
            // Counted as if it were there, so that rotation can make room on a full disk.
            self.size += output.len() as u64;
            self.why = Some(error);
        }
    }

    fn put(&mut self, output: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        file.write_all(output)?;
        self.size += output.len() as u64;
        Ok(())
    }

    /// Says in the log itself that something is missing there.
    pub(super) fn note_loss(&mut self) -> io::Result<()> {
        if self.lost == 0 {
            return Ok(());
        }
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        self.put(format!("\n[muster] {} bytes of output are missing here{why}\n", self.lost).as_bytes())?;
        (self.lost, self.why) = (0, None);
        Ok(())
    }

    /// Removes full files, for something that matters more.
    pub(super) fn give_way(&self) {
        for age in 1..=self.limits.keep {
            let _ = fs::remove_file(self.folder.older_log(age));
        }
    }

    fn rotate(&mut self) {
        self.file = None;
        self.size = 0;
        let LogLimits { keep, .. } = self.limits;
        // A name that is missing, and one that cannot be given, leave the log in use: it is begun anew regardless.
        for age in (1..keep).rev() {
            let _ = fs::rename(self.folder.older_log(age), self.folder.older_log(age + 1));
        }
        let log = self.folder.log();
        let moved = if keep == 0 { fs::remove_file(log) } else { fs::rename(log, self.folder.older_log(1)) };
        if let Err(error) = moved.and_then(|()| self.reopen()) {
            self.why = Some(error);
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.folder.log())?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }
}

/// How much of `output` goes into a file with so much room: whole lines if there is a choice, something in any case
/// if the file is new.
fn fitting(output: &[u8], room: usize, is_new: bool) -> usize {
    if output.len() <= room {
        return output.len();
    }
    let lines = output[..room].iter().rposition(|byte| *byte == b'\n').map(|newline| newline + 1);
    lines.unwrap_or(if is_new { room } else { 0 })
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
        folder.make().unwrap();
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
    fn a_file_takes_whole_lines(
        #[case] output: &[u8],
        #[case] room: usize,
        #[case] is_new: bool,
        #[case] expected: usize,
    ) {
        assert_eq!(fitting(output, room, is_new), expected);
    }

    #[test]
    fn full_files_move_on_and_the_oldest_goes() {
        let (_parent, folder) = folder();
        let mut log = Log::open(&folder, LogLimits { max_bytes: LEAST, keep: 2 });
        for line in 0..5u8 {
            log.write(&[vec![b'0' + line; 3999], vec![b'\n']].concat());
        }
        assert!(read(folder.log()).starts_with('4'));
        assert!(read(folder.older_log(1)).starts_with('3'));
        assert!(read(folder.older_log(2)).starts_with('2'));
        assert!(!folder.older_log(3).exists());
    }

    #[test]
    fn without_older_files_the_log_is_begun_anew() {
        let (_parent, folder) = folder();
        let mut log = Log::open(&folder, LogLimits { max_bytes: LEAST, keep: 0 });
        log.write(&[b'a'; 4096]);
        log.write(b"b\n");
        assert_eq!(read(folder.log()), "b\n");
        assert!(!folder.older_log(1).exists());
    }

    #[test]
    fn a_log_goes_on_where_the_last_one_ended() {
        let (_parent, folder) = folder();
        Log::open(&folder, LogLimits::default()).write(b"a\n");
        Log::open(&folder, LogLimits::default()).write(b"b\n");
        assert_eq!(read(folder.log()), "a\nb\n");
    }

    #[test]
    fn what_a_full_disk_swallowed_is_noted_once_there_is_room() {
        let (_parent, folder) = folder();
        let mut log = Log::open(&folder, LogLimits::default());
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
