//! What nodes write, from their log files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};

use crate::shim::NodeFolder;
use crate::sys::FolderWatch;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// A line that grows beyond this is given out in parts.
const LONGEST_LINE: usize = 1 << 20;

/// What a node wrote: its last lines or all that is kept, and then what it adds, until its folder is gone.
pub(super) fn read(
    folder: &NodeFolder,
    tail: Option<usize>,
    follow: bool,
) -> io::Result<BoxStream<'static, io::Result<String>>> {
    // Before anything is read: what is written meanwhile is then told of.
    let watch = follow.then(|| FolderWatch::new(folder.path())).transpose()?;
    let files = folder.logs()?;
    let (first, skip) = match tail {
        Some(lines) => start_of_tail(&files, lines)?,
        None => (0, 0),
    };
    let reader = Reader {
        files: files.into_iter().skip(first).collect(),
        open: None,
        rest: Vec::new(),
        skip,
        log: folder.log(),
    };
    Ok(stream::try_unfold((reader, watch), step).boxed())
}

/// In which file, and where in it, the last lines begin.
fn start_of_tail(files: &[PathBuf], lines: usize) -> io::Result<(usize, u64)> {
    let mut left = lines;
    for (place, file) in files.iter().enumerate().rev() {
        let text = std::fs::read(file)?;
        // A line that is not ended yet is a line too.
        let body = text.strip_suffix(b"\n").unwrap_or(&text);
        if left == 0 {
            return Ok((place, text.len() as u64));
        }
        let count = if text.is_empty() { 0 } else { body.split(|byte| *byte == b'\n').count() };
        if count >= left {
            let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
            let start = ends.map(|(at, _)| at + 1).nth(left - 1).unwrap_or(0);
            return Ok((place, start as u64));
        }
        left -= count;
    }
    Ok((0, 0))
}

struct Reader {
    /// Those that are still to be read, oldest first.
    files: VecDeque<PathBuf>,
    open: Option<File>,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
    /// Bytes of the first file that are not wanted.
    skip: u64,
    log: PathBuf,
}

type Follow = (Reader, Option<FolderWatch>);

/// The next whole lines; nothing once all is read and nobody follows, or the folder is gone.
async fn step((mut reader, watch): Follow) -> io::Result<Option<(String, Follow)>> {
    loop {
        if let Some(text) = reader.next()? {
            return Ok(Some((text, (reader, watch))));
        }
        let Some(watch) = &watch else {
            let rest = std::mem::take(&mut reader.rest);
            return Ok((!rest.is_empty()).then(|| (lossy(&rest), (reader, None))));
        };
        if !reader.log.exists() && !reader.log.parent().is_some_and(std::path::Path::exists) {
            return Ok(None);
        }
        watch.changed().await?;
    }
}

impl Reader {
    fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let Some(file) = &mut self.open else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            let mut chunk = vec![0; CHUNK];
            let count = file.read(&mut chunk)?;
            if count > 0 {
                self.rest.extend_from_slice(&chunk[..count]);
                if let Some(text) = self.whole_lines() {
                    return Ok(Some(text));
                }
            } else if !self.open_next()? {
                return Ok(None);
            }
        }
    }

    /// Goes on with the next file: one that was there at first, or the one that took the place of ours.
    fn open_next(&mut self) -> io::Result<bool> {
        let next = match self.files.pop_front() {
            Some(file) => file,
            None if self.is_current() => return Ok(false),
            None => self.log.clone(),
        };
        let mut file = match File::open(next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        file.seek(SeekFrom::Start(std::mem::take(&mut self.skip)))?;
        self.open = Some(file);
        Ok(true)
    }

    /// Whether what we read is what is being written.
    fn is_current(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let same = |ours: std::fs::Metadata, found: std::fs::Metadata| ours.ino() == found.ino();
        match (open.metadata(), std::fs::metadata(&self.log)) {
            (Ok(ours), Ok(found)) => same(ours, found),
            _ => true,
        }
    }

    fn whole_lines(&mut self) -> Option<String> {
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let end = end.or_else(|| (self.rest.len() > LONGEST_LINE).then_some(self.rest.len()))?;
        let left = self.rest.split_off(end);
        let lines = std::mem::replace(&mut self.rest, left);
        Some(lossy(&lines))
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
