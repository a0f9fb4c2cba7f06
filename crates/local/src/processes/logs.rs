//! Reading and following the logs of nodes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_engine::ports::provider::LogQuery;

use crate::shim::{NodeFolder, find_position_since};
use crate::sys::FolderWatch;

/// Bytes per read.
const CHUNK: usize = 64 * 1024;

/// Longest line; longer ones are returned in parts.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Until when a growing log is followed.
pub(super) enum LogFollow {
    /// The log is not followed.
    No,
    /// Until the folder is removed.
    UntilRemoved,
    /// Until the folder is removed, or this function says that the writer has ended.
    Until(Box<dyn Fn() -> bool + Send>),
}

/// Streams the selected lines of a node's log, and then new lines if it is followed.
pub(super) fn read_log(
    folder: &NodeFolder,
    query: LogQuery,
    follow: LogFollow,
) -> io::Result<BoxStream<'static, io::Result<String>>> {
    // The watch begins before the first read, so that no line is missed.
    let is_followed = !matches!(follow, LogFollow::No);
    let watch = is_followed.then(|| FolderWatch::new(folder.path())).transpose()?;
    let reader = LogReader::new(folder.logs()?, folder.log(), &folder.times(), query, follow)?;
    Ok(stream::try_unfold((reader, watch), next_text).boxed())
}

/// Streams the selected lines of files, the oldest first, that no longer grow.
pub(super) fn read_files(
    files: Vec<PathBuf>,
    times: &Path,
    query: LogQuery,
) -> io::Result<BoxStream<'static, io::Result<String>>> {
    let newest = files.last().cloned().unwrap_or_default();
    let reader = LogReader::new(files, newest, times, query, LogFollow::No)?;
    Ok(stream::try_unfold((reader, None), next_text).boxed())
}

/// Finds the first selected line: the index of its file and the offset there.
fn find_start(files: &[PathBuf], times: &Path, query: LogQuery) -> io::Result<(usize, u64)> {
    let of_tail = match query.tail {
        Some(lines) => start_of_tail(files, lines)?,
        None => (0, 0),
    };
    let Some(since) = query.since else { return Ok(of_tail) };
    let of_time = match find_position_since(times, files, since)? {
        Some(position) => position,
        None => start_of_tail(files, 0)?,
    };
    Ok(of_tail.max(of_time))
}

/// Finds the first of the last lines: the index of its file and the offset there.
fn start_of_tail(files: &[PathBuf], lines: usize) -> io::Result<(usize, u64)> {
    let mut left = lines;
    for (index, file) in files.iter().enumerate().rev() {
        let text = std::fs::read(file)?;
        // A line without its end counts as a line.
        let body = text.strip_suffix(b"\n").unwrap_or(&text);
        if left == 0 {
            return Ok((index, text.len() as u64));
        }
        let count = if text.is_empty() { 0 } else { body.split(|byte| *byte == b'\n').count() };
        if count >= left {
            let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
            let start = ends.map(|(at, _)| at + 1).nth(left - 1).unwrap_or(0);
            return Ok((index, start as u64));
        }
        left -= count;
    }
    Ok((0, 0))
}

struct LogReader {
    /// Files that are still to be read, oldest first.
    files: VecDeque<PathBuf>,
    open: Option<File>,
    /// The start of a line whose end is not written yet.
    rest: Vec<u8>,
    /// Bytes of the first file that are not selected.
    skip: u64,
    log: PathBuf,
    follow: LogFollow,
    /// True if the writer had ended before the last read.
    is_over: bool,
}

type LogStream = (LogReader, Option<FolderWatch>);

/// Returns the next complete lines; `None` at the end of a log that is not followed, or when the folder was removed.
async fn next_text((mut reader, watch): LogStream) -> io::Result<Option<(String, LogStream)>> {
    loop {
        if let Some(text) = reader.next()? {
            return Ok(Some((text, (reader, watch))));
        }
        let Some(changes) = watch.as_ref().filter(|_| !reader.is_over) else {
            let rest = std::mem::take(&mut reader.rest);
            return Ok((!rest.is_empty()).then(|| (lossy(&rest), (reader, watch))));
        };
        if !reader.log.exists() && !reader.log.parent().is_some_and(Path::exists) {
            return Ok(None);
        }
        if let LogFollow::Until(is_over) = &reader.follow
            && is_over()
        {
            // Reads once more: lines may have been written before the writer ended.
            reader.is_over = true;
            continue;
        }
        changes.changed().await?;
    }
}

impl LogReader {
    fn new(
        files: Vec<PathBuf>,
        log: PathBuf,
        times: &Path,
        query: LogQuery,
        follow: LogFollow,
    ) -> io::Result<Self> {
        let (first, skip) = find_start(&files, times, query)?;
        let files = files.into_iter().skip(first).collect();
        Ok(Self { files, open: None, rest: Vec::new(), skip, log, follow, is_over: false })
    }

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

    /// Opens the next file: an older one, or after a rotation the new one. Returns false if there is none.
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

    /// Returns true if the open file is the one that is being written.
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
        let end = end.or_else(|| (self.rest.len() > MAX_LINE_BYTES).then_some(self.rest.len()))?;
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
