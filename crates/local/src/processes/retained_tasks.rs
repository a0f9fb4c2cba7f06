//! Retained output of tasks and executors of deleted clusters, bounded for each cluster.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use muster_core::cluster::Framework;
use muster_core::ids::NodeId;
use muster_core::node::NodeRole;
use muster_engine::ports::provider::{LogLines, LogQuery};
use muster_frameworks::{OutputFolder, TaskOutput};

use super::on_disk;
use super::task_output::{MAX_BYTES, list_files, read_from, read_task_output};
use crate::files;
use futures::{StreamExt as _, TryStreamExt as _};

/// The highest number of bytes that are retained for a cluster; files that were written last come first.
const MAX_CLUSTER_BYTES: u64 = 64 << 20;

/// Files of the tasks of one node.
pub(super) struct TaskFiles {
    pub(super) node: NodeId,
    /// The folder that contains the files.
    pub(super) folder: PathBuf,
    pub(super) output: TaskOutput,
}

/// Moves the output of tasks to the retained logs: of each file at most its last megabyte.
pub(super) fn retain(sources: &[TaskFiles], to: &Path) -> io::Result<()> {
    retain_bounded(sources, to, MAX_CLUSTER_BYTES)
}

fn retain_bounded(sources: &[TaskFiles], to: &Path, at_most: u64) -> io::Result<()> {
    let mut found = Vec::new();
    for TaskFiles { node, folder, output } in sources {
        for (file, label) in list_files(folder, output)? {
            let metadata = fs::metadata(&file)?;
            let target = tasks_folder(to, *node).join(encode_label(&label));
            found.push((metadata.modified()?, metadata.len(), file, target));
        }
    }
    found.sort_by(|(left, ..), (right, ..)| right.cmp(left));
    let mut left = at_most;
    for (modified, size, file, target) in found.into_iter().filter(|(_, size, ..)| *size > 0) {
        let kept = size.min(MAX_BYTES);
        if kept > left {
            break;
        }
        left -= kept;
        if let Some(folder) = target.parent() {
            files::make_folder(folder)?;
        }
        if kept == size {
            fs::rename(&file, &target)?;
            continue;
        }
        let end = read_from(&file, size - kept, kept)?;
        let line = end.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut copy = File::create(&target)?;
        copy.write_all(&end[line..])?;
        // The time of a file is that of its last line.
        copy.set_modified(modified)?;
    }
    Ok(())
}

/// Adds the retained output of a node's tasks to its log.
pub(super) async fn add_to(
    lines: LogLines,
    folder: &Path,
    node: NodeId,
    framework: Option<Framework>,
    query: LogQuery,
) -> io::Result<LogLines> {
    // Retained files do not grow.
    let query = LogQuery { follow: false, ..query };
    let tasks = read_task_output(tasks_folder(folder, node), retained_output(framework), query).await?;
    let failed = |error: io::Error| on_disk("the output of tasks cannot be read", &error);
    Ok(lines.chain(tasks.map_err(failed)).boxed())
}

/// Returns the pattern of retained files, with the lines that the framework hides.
fn retained_output(framework: Option<Framework>) -> TaskOutput {
    let framework = framework.and_then(muster_frameworks::local);
    let output = framework.and_then(|framework| framework.task_output(&NodeRole::Head, ""));
    TaskOutput {
        // Has no effect: the folder is given.
        folder: OutputFolder::Cluster,
        names: vec!["*".to_owned()],
        label: decode_label,
        hidden: output.map_or(&[], |output| output.hidden),
    }
}

fn tasks_folder(folder: &Path, node: NodeId) -> PathBuf {
    folder.join(format!("{node}.tasks"))
}

/// Makes a file name from a label, which may contain slashes.
fn encode_label(label: &str) -> String {
    label.replace('%', "%25").replace('/', "%2F")
}

fn decode_label(names: &[String]) -> String {
    names.join("/").replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use futures::stream;
    use muster_engine::ports::provider::LogText;
    use uuid::Uuid;

    use super::*;

    fn spark(folder: &Path) -> TaskFiles {
        let spark = muster_frameworks::local(Framework::Spark).unwrap();
        let output = spark.task_output(&NodeRole::Worker, "127.1.0.1").unwrap();
        TaskFiles { node: NodeId::from_uuid(Uuid::from_u128(7)), folder: folder.to_owned(), output }
    }

    /// Writes the output of an executor, which was written this many seconds ago.
    fn executor(folder: &Path, number: u32, age: u64, text: &str) {
        let folder = folder.join(format!("executors/127.1.0.1/app-1/{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stdout"), text).unwrap();
        let file = File::options().append(true).open(folder.join("stdout")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }

    async fn read(folder: &Path, query: LogQuery) -> Vec<(String, String)> {
        let node = NodeId::from_uuid(Uuid::from_u128(7));
        let lines =
            add_to(stream::empty().boxed(), folder, node, Some(Framework::Spark), query).await.unwrap();
        let parts: Vec<LogText> = lines.try_collect().await.unwrap();
        parts.into_iter().map(|part| (part.source, part.text)).collect()
    }

    #[tokio::test]
    async fn the_output_of_executors_is_retained_with_its_labels_and_times() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("kept"), root.path().join("logs"));
        executor(&from, 0, 60, "one\n");
        executor(&from, 1, 0, "two\n");
        executor(&from, 2, 0, "");
        retain(&[spark(&from)], &to).unwrap();
        let [zero, one] = [(0, "one\n"), (1, "two\n")]
            .map(|(number, text)| (format!("app-1/executor-{number}.stdout"), text.to_owned()));
        assert_eq!(read(&to, LogQuery::default()).await, [zero, one.clone()]);
        let since = muster_core::time::Timestamp::from_micros(
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros().try_into().unwrap(),
        )
        .before(muster_core::time::TimeSpan::from_secs(30));
        let recent = LogQuery { since: Some(since), follow: true, ..LogQuery::default() };
        assert_eq!(read(&to, recent).await, [one]);
    }

    #[tokio::test]
    async fn old_output_is_dropped_where_there_is_too_much() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("kept"), root.path().join("logs"));
        let large = "1234567\n".repeat(usize::try_from(MAX_BYTES).unwrap() / 8 + 1);
        executor(&from, 0, 60, "old\n");
        executor(&from, 1, 30, &large);
        retain_bounded(&[spark(&from)], &to, MAX_BYTES + 3).unwrap();
        let read = read(&to, LogQuery::default()).await;
        assert!(
            read.iter().all(|(source, _)| source == "app-1/executor-1.stdout"),
            "the old file is too large"
        );
        let length: usize = read.iter().map(|(_, text)| text.len()).sum();
        assert_eq!(length as u64, MAX_BYTES - 8, "the end of the file, from the beginning of a line");
    }

    #[test]
    fn labels_are_encoded_as_names_of_files() {
        for label in ["app-1/executor-0.stdout", "50%/a", "%2F"] {
            assert_eq!(decode_label(&[encode_label(label)]), label);
        }
    }
}
