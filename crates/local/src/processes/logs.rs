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

/// The number of bytes per read.
const CHUNK: usize = 64 * 1024;

/// The longest line in bytes; longer lines are returned in parts.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The condition that ends the following of a growing log.
pub(super) enum LogFollow {
    /// The log is not followed.
    No,
    /// The log is followed until its folder is removed.
    UntilRemoved,
    /// The log is followed until its folder is removed, or this function returns true because the writer has ended.
    Until(Box<dyn Fn() -> bool + Send>),
}

/// Streams the selected lines of a node's log, and then new lines if it is followed.
pub(super) async fn read_log(
    folder: &NodeFolder,
    query: LogQuery,
    follow: LogFollow,
) -> io::Result<BoxStream<'static, io::Result<String>>> {
    // The watch begins before the first read, so that no line is missed.
    let is_followed = !matches!(follow, LogFollow::No);
    let watch = is_followed.then(|| FolderWatch::new(folder.path())).transpose()?;
    let node = folder.clone();
    // The search for the first line may read all files.
    let reader = tokio::task::spawn_blocking(move || {
        let files = node.logs()?;
        let (first, skip) = find_start(&files, &node.times(), query)?;
        // Rotation renames the later files: each is searched when the one before it was read.
        let first = files.into_iter().skip(first).take(1).collect();
        Ok::<_, io::Error>(LogReader::new(first, skip, Some(node), follow))
    });
    let reader = reader.await.map_err(io::Error::other)??;
    Ok(stream::try_unfold((reader, watch), next_text).boxed())
}

/// Streams the selected lines of files, the oldest first, that no longer grow.
pub(super) fn read_files(
    files: Vec<PathBuf>,
    times: &Path,
    query: LogQuery,
) -> io::Result<BoxStream<'static, io::Result<String>>> {
    let (first, skip) = find_start(&files, times, query)?;
    let files = files.into_iter().skip(first).collect();
    let reader = LogReader::new(files, skip, None, LogFollow::No);
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
    /// The folder with the later files; none if `files` has all of them.
    folder: Option<NodeFolder>,
    open: Option<File>,
    /// The start of a line whose end is not written yet.
    rest: Vec<u8>,
    /// Bytes of the first file that are not selected.
    skip: u64,
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
        if !reader.folder.as_ref().is_some_and(|folder| folder.path().exists()) {
            return Ok(None);
        }
        if let LogFollow::Until(is_over) = &reader.follow
            && is_over()
        {
            // The loop reads once more: lines may have been written just before the writer ended.
            reader.is_over = true;
            continue;
        }
        changes.changed().await?;
    }
}

impl LogReader {
    fn new(files: VecDeque<PathBuf>, skip: u64, folder: Option<NodeFolder>, follow: LogFollow) -> Self {
        Self { files, folder, open: None, rest: Vec::new(), skip, follow, is_over: false }
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

    /// Opens the next file: a listed one, or the one that was written after the open one. Returns false if there is
    /// none.
    fn open_next(&mut self) -> io::Result<bool> {
        while let Some(listed) = self.files.pop_front() {
            let skip = std::mem::take(&mut self.skip);
            if let Some(mut file) = open_if_exists(&listed)? {
                file.seek(SeekFrom::Start(skip))?;
                self.open = Some(file);
                return Ok(true);
            }
        }
        let next = self.open_newer()?;
        let is_open = next.is_some();
        self.open = next.or(self.open.take());
        Ok(is_open)
    }

    /// Opens the file that was written after the open one; `None` if the open one is being written. Between two reads
    /// the log may be rotated several times. If the open one was removed by that, the oldest file is the next.
    fn open_newer(&self) -> io::Result<Option<File>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let current = self.open.as_ref().map(inode).transpose()?;
        let mut next = None;
        // From the newest to the oldest: a rotation meanwhile moves files to names that are still to be searched.
        for path in folder.logs()?.iter().rev() {
            let Some(file) = open_if_exists(path)? else { continue };
            if Some(inode(&file)?) == current {
                break;
            }
            next = Some(file);
        }
        Ok(next)
    }

    fn whole_lines(&mut self) -> Option<String> {
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let end = end.or_else(|| (self.rest.len() > MAX_LINE_BYTES).then_some(self.rest.len()))?;
        let left = self.rest.split_off(end);
        let lines = std::mem::replace(&mut self.rest, left);
        Some(lossy(&lines))
    }
}

fn open_if_exists(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
