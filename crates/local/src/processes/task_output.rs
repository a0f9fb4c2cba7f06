//! Files that tasks and executors write, apart from the log of their node.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_engine::ports::provider::{LogQuery, LogText};
use muster_frameworks::TaskOutput;

use crate::shim::modified_at;

/// The number of bytes per read.
const CHUNK: u64 = 64 * 1024;

/// The highest number of bytes that are read from the end of a file.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// The highest number of files that are read: those that were written last.
const MAX_FILES: usize = 200;

/// The interval at which new files and lines are read. The files are polled, since there may be more folders than
/// inotify allows.
const PERIOD: Duration = Duration::from_secs(1);

/// Streams the files of tasks in a folder, and follows them if the query asks for it.
pub(super) async fn read_task_output(
    folder: PathBuf,
    output: TaskOutput,
    query: LogQuery,
) -> io::Result<BoxStream<'static, io::Result<LogText>>> {
    let reader = TaskOutputReader {
        folder,
        output,
        query,
        offsets: BTreeMap::new(),
        round: VecDeque::new(),
        is_first: true,
    };
    let reader = reader.begin_round().await?;
    Ok(stream::try_unfold(reader, next_text).boxed())
}

struct TaskOutputReader {
    folder: PathBuf,
    output: TaskOutput,
    query: LogQuery,
    /// The next offset in each file.
    offsets: BTreeMap<PathBuf, u64>,
    /// Files that are read in this round, with their labels.
    round: VecDeque<(PathBuf, String)>,
    is_first: bool,
}

async fn next_text(mut reader: TaskOutputReader) -> io::Result<Option<(LogText, TaskOutputReader)>> {
    loop {
        while let Some((file, source)) = reader.round.front().cloned() {
            match reader.next(&file)? {
                Some(text) if text.is_empty() => {}
                Some(text) => return Ok(Some((LogText { source, text }, reader))),
                None => drop(reader.round.pop_front()),
            }
        }
        if !reader.query.follow {
            return Ok(None);
        }
        tokio::time::sleep(PERIOD).await;
        reader = reader.begin_round().await?;
    }
}

impl TaskOutputReader {
    /// Lists the files, and finds the first line of the new ones: that may read megabytes.
    async fn begin_round(mut self) -> io::Result<Self> {
        let listed = tokio::task::spawn_blocking(move || self.list().map(|()| self)).await;
        listed.map_err(io::Error::other)?
    }

    fn list(&mut self) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        for (file, source) in list_files(&self.folder, &self.output)? {
            if !self.offsets.contains_key(&file) {
                let query = if is_first { self.query } else { LogQuery::default() };
                let Some(offset) = ignore_missing(find_start(&file, query))? else { continue };
                self.offsets.insert(file.clone(), offset);
            }
            self.round.push_back((file, source));
        }
        Ok(())
    }

    /// Reads the next complete lines of a file; `None` if it has no more now.
    fn next(&mut self, file: &Path) -> io::Result<Option<String>> {
        let offset = self.offsets.get(file).copied().unwrap_or(0);
        let Some(bytes) = ignore_missing(read_from(file, offset, CHUNK))? else { return Ok(None) };
        let is_cut = bytes.len() as u64 == CHUNK;
        let end = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            // A line without its end is returned only if the file is not followed.
            None if is_cut || !self.query.follow => bytes.len(),
            None => 0,
        };
        if end == 0 {
            return Ok(None);
        }
        self.offsets.insert(file.to_owned(), offset + end as u64);
        let text = String::from_utf8_lossy(&bytes[..end]);
        let is_shown = |line: &&str| !self.output.hidden.iter().any(|prefix| line.starts_with(prefix));
        Ok(Some(text.split_inclusive('\n').filter(is_shown).collect()))
    }
}

/// Lists the files of tasks with their labels, sorted by label.
pub(super) fn list_files(folder: &Path, output: &TaskOutput) -> io::Result<Vec<(PathBuf, String)>> {
    let mut level: Vec<(PathBuf, Vec<String>)> = vec![(folder.to_owned(), Vec::new())];
    for wanted in &output.names {
        let mut below = Vec::new();
        for (folder, names) in level {
            let Some(entries) = ignore_missing(fs::read_dir(&folder))? else { continue };
            for entry in entries {
                let entry = entry?;
                // Links are skipped: Ray has a link to its latest session, which would be listed twice.
                let is_link = entry.file_type()?.is_symlink();
                if let Some(name) =
                    entry.file_name().to_str().filter(|name| !is_link && matches_pattern(wanted, name))
                {
                    let names = names.iter().cloned().chain([name.to_owned()]).collect();
                    below.push((entry.path(), names));
                }
            }
        }
        level = below;
    }
    if level.len() > MAX_FILES {
        level.sort_by_cached_key(|(file, _)| std::cmp::Reverse(modified_at(file)));
        level.truncate(MAX_FILES);
    }
    let mut files: Vec<(PathBuf, String)> =
        level.into_iter().map(|(file, names)| (file, (output.label)(&names))).collect();
    files.sort_by(|(_, left), (_, right)| left.cmp(right));
    Ok(files)
}

fn matches_pattern(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix('*').map_or(name == wanted, |beginning| name.starts_with(beginning))
}

/// Finds the offset of the first selected line of a file.
fn find_start(file: &Path, LogQuery { tail, since, .. }: LogQuery) -> io::Result<u64> {
    let size = fs::metadata(file)?.len();
    if since.is_some_and(|since| modified_at(file).is_some_and(|at| at < since)) {
        return Ok(size);
    }
    let first = size.saturating_sub(MAX_BYTES);
    let bytes = read_from(file, first, MAX_BYTES)?;
    let start = match first {
        0 => 0,
        _ => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1),
    };
    let body = &bytes[start..];
    let skipped = tail.map_or(0, |lines| offset_of_last_lines(body, lines));
    Ok(first + (start + skipped) as u64)
}

/// Finds the offset of the last lines of a text. A line without its end counts as a line.
fn offset_of_last_lines(text: &[u8], lines: usize) -> usize {
    let ends = text.strip_suffix(b"\n").unwrap_or(text).iter().enumerate().rev();
    let Some(last) = lines.checked_sub(1) else { return text.len() };
    ends.filter(|(_, byte)| **byte == b'\n').nth(last).map_or(0, |(at, _)| at + 1)
}

pub(super) fn read_from(file: &Path, offset: u64, at_most: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(at_most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Maps the error of a missing file or folder to `None`.
fn ignore_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;
    use muster_core::cluster::Framework;
    use muster_core::node::NodeRole;
    use muster_core::time::TimeSpan;
    use muster_engine::ports::clock::{Clock as _, SystemClock};
    use rstest::rstest;

    use super::*;

    fn output() -> TaskOutput {
        let ray = muster_frameworks::local(Framework::Ray).unwrap();
        ray.task_output(&NodeRole::Head, "fred-head").unwrap()
    }

    fn session(text: &str) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("session_1/logs");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("raylet.out"), "not of a task\n").unwrap();
        fs::write(logs.join("worker-a.out"), text).unwrap();
        std::os::unix::fs::symlink(root.path().join("session_1"), root.path().join("session_latest"))
            .unwrap();
        (root, logs)
    }

    async fn all(root: &Path, query: LogQuery) -> String {
        let parts: Vec<LogText> =
            read_task_output(root.to_owned(), output(), query).await.unwrap().try_collect().await.unwrap();
        parts.into_iter().flat_map(|part| ["[".to_owned(), part.source, "]".to_owned(), part.text]).collect()
    }

    #[rstest]
    #[case(None, "[worker-a.out]one\ntwo\nhalf")]
    #[case(Some(2), "[worker-a.out]two\nhalf")]
    #[case(Some(0), "")]
    #[tokio::test]
    async fn files_of_tasks_are_read_once_without_markers_of_the_framework(
        #[case] tail: Option<usize>,
        #[case] expected: &str,
    ) {
        let (root, _) = session(":job_id:01000000\none\ntwo\nhalf");
        // The last line has no end, so it is a part of its own.
        let text = all(root.path(), LogQuery { tail, ..LogQuery::default() }).await;
        assert_eq!(text.replace("[worker-a.out]half", "half"), expected);
    }

    #[tokio::test]
    async fn files_without_changes_since_a_time_are_skipped() {
        let (root, _) = session("one\n");
        let now = SystemClock.now();
        let since = |since| LogQuery { since: Some(since), ..LogQuery::default() };
        assert_eq!(all(root.path(), since(now.before(TimeSpan::from_secs(60)))).await, "[worker-a.out]one\n");
        assert_eq!(all(root.path(), since(now.after(TimeSpan::from_secs(60)))).await, "");
        assert_eq!(all(&root.path().join("gone"), LogQuery::default()).await, "");
    }

    #[tokio::test]
    async fn the_end_of_a_large_file_begins_with_a_whole_line() {
        let lines = usize::try_from(MAX_BYTES).unwrap() / 8;
        let (root, _) = session(&format!("first\n{}", "1234567\n".repeat(lines)));
        let text = all(root.path(), LogQuery::default()).await;
        assert!(!text.contains("first") && text.starts_with("[worker-a.out]1234567\n"));
    }

    #[tokio::test]
    async fn new_lines_and_new_files_are_followed() {
        let (root, logs) = session("one\n");
        let query = LogQuery { follow: true, tail: Some(0), ..LogQuery::default() };
        // The first listing happens before the file below exists.
        let mut followed = read_task_output(root.path().to_owned(), output(), query).await.unwrap();
        fs::write(logs.join("worker-b.err"), "new\nha").unwrap();
        let part = followed.try_next().await.unwrap().unwrap();
        assert_eq!((part.source.as_str(), part.text.as_str()), ("worker-b.err", "new\n"));
    }
}
