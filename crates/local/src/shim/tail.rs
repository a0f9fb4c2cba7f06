//! The last lines of a node's log.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::folder::NodeFolder;

/// The number of bytes that are read from the end of one file. The limit bounds the memory for very long lines.
const MAX_BYTES: u64 = 256 * 1024;

impl NodeFolder {
    /// Reads the last lines of the node's output, oldest first. Bytes that are not UTF-8 are replaced.
    pub fn tail(&self, lines: usize) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for file in self.logs()?.iter().rev() {
            if found.len() >= lines {
                break;
            }
            let mut older = last_lines(file, lines - found.len())?;
            older.append(&mut found);
            found = older;
        }
        Ok(found)
    }
}

/// Reads the last lines of one file; empty if it was rotated meanwhile.
fn last_lines(path: &Path, lines: usize) -> io::Result<Vec<String>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use muster_core::ids::NodeId;

    use super::*;

    #[test]
    fn the_last_lines_may_be_in_several_files() {
        let parent = tempfile::tempdir().unwrap();
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        folder.create().unwrap();
        assert_eq!(folder.tail(3).unwrap(), [] as [&str; 0]);
        fs::write(folder.older_log(2), "a\nb\n").unwrap();
        fs::write(folder.older_log(1), "c\n").unwrap();
        fs::write(folder.log(), b"d\n\xff e").unwrap();
        assert_eq!(folder.tail(4).unwrap(), ["b", "c", "d", "\u{fffd} e"]);
        assert_eq!(folder.tail(1).unwrap(), ["\u{fffd} e"]);
        fs::remove_file(folder.older_log(1)).unwrap();
        assert_eq!(folder.tail(3).unwrap(), ["b", "d", "\u{fffd} e"], "a gap hides nothing");
    }
}
