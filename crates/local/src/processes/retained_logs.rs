//! Retained logs of deleted clusters.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures::{StreamExt as _, TryStreamExt as _};
use muster_core::ids::NodeId;
use muster_engine::ports::provider::{LogQuery, LogText, StoredLog};

use super::logs::read_files;
use super::{on_disk, paths};

/// Removes folders to which no log was added for longer than `retention`; returns their number.
pub(super) fn purge_old(folder: &Path, retention: Duration, now: SystemTime) -> io::Result<usize> {
    purge_with(folder, retention, now, |old| fs::remove_dir_all(old))
}

/// Removes old folders with `remove`. A folder that cannot be removed does not keep the others.
fn purge_with(
    folder: &Path,
    retention: Duration,
    now: SystemTime,
    remove: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<usize> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut count = 0;
    for entry in entries {
        let path = entry?.path();
        let removed = match is_old_folder(&path, retention, now) {
            Ok(true) => remove(&path).map(|()| 1),
            is_old => is_old.map(|_| 0),
        };
        match removed {
            Ok(removed) => count += removed,
            Err(error) => tracing::warn!(folder = %path.display(), %error, "cannot remove old logs"),
        }
    }
    Ok(count)
}

fn is_old_folder(path: &Path, retention: Duration, now: SystemTime) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    // The time of the folder is that of the last log that was moved there. The times of the logs are older: each is that
    // of the last line.
    let age = now.duration_since(found.modified()?);
    Ok(found.is_dir() && age.is_ok_and(|age| age > retention))
}

/// Reads the logs of a deleted cluster, sorted by the names of its nodes; empty if none are retained.
pub(super) fn read_logs(folder: &Path, query: LogQuery) -> io::Result<Vec<StoredLog>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    // The log files of each node, the oldest first.
    let mut files: BTreeMap<NodeId, BTreeMap<Reverse<u32>, PathBuf>> = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        if let Some((node, age)) = entry.file_name().to_str().and_then(parse_log_name) {
            files.entry(node).or_default().insert(Reverse(age), entry.path());
        }
    }
    // Retained logs do not grow.
    let query = LogQuery { follow: false, ..query };
    let mut logs = Vec::with_capacity(files.len());
    for (node, files) in files {
        let name =
            paths::read_json(&folder.join(format!("{node}.name.json"))).unwrap_or_else(|| node.to_string());
        let (times, files) = (folder.join(format!("{node}.times")), files.into_values().collect());
        let broken = |error| on_disk("the log cannot be read", &error);
        let lines = read_files(files, &times, query)?.map_ok(LogText::of_node).map_err(broken).boxed();
        logs.push(StoredLog { node, name, lines });
    }
    logs.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(logs)
}

/// Parses the name of a retained log: its node, and its age, where 0 is the newest.
fn parse_log_name(name: &str) -> Option<(NodeId, u32)> {
    let (node, rest) = name.split_once('.')?;
    let age = match rest {
        "log" => 0,
        rest => rest.strip_prefix("log.")?.parse().ok()?,
    };
    Some((node.parse().ok()?, age))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::files;
    use crate::shim::NodeFolder;

    #[tokio::test]
    async fn retained_logs_are_read_with_the_names_of_their_nodes() {
        let root = tempfile::tempdir().unwrap();
        let (nodes, retained) = (root.path().join("nodes"), root.path().join("fred-1"));
        assert!(read_logs(&retained, LogQuery::default()).unwrap().is_empty());
        for (number, name) in [(1, Some("fred-worker-1")), (2, Some("fred-head")), (3, None)] {
            let folder = NodeFolder::new(&nodes, NodeId::from_uuid(Uuid::from_u128(number)));
            folder.create().unwrap();
            fs::write(folder.path().join("log.1"), "old\n").unwrap();
            fs::write(folder.log(), format!("{number}\n")).unwrap();
            if let Some(name) = name {
                files::write(&folder.name_file(), &name).unwrap();
            }
            paths::retain_logs(&folder, &retained).unwrap();
        }
        let mut texts = Vec::new();
        for log in read_logs(&retained, LogQuery { follow: true, ..LogQuery::default() }).unwrap() {
            let parts: Vec<LogText> = log.lines.try_collect().await.unwrap();
            let text: String = parts.into_iter().map(|part| part.text).collect();
            texts.push((log.name, text));
        }
        let expected = [
            (Uuid::from_u128(3).to_string(), "old\n3\n".to_owned()),
            ("fred-head".to_owned(), "old\n2\n".to_owned()),
            ("fred-worker-1".to_owned(), "old\n1\n".to_owned()),
        ];
        assert_eq!(texts, expected);
    }

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn logs_are_purged_after_their_retention() {
        let folder = tempfile::tempdir().unwrap();
        let (retained, now) = (folder.path().join("logs"), SystemTime::now());
        assert_eq!(purge_old(&retained, DAY, now).unwrap(), 0, "the folder may be missing");
        fs::create_dir_all(retained.join("fred-1")).unwrap();
        fs::write(retained.join("fred-1/node.log"), "last line").unwrap();
        fs::write(retained.join("a file of the user"), "not a log").unwrap();
        assert_eq!(purge_old(&retained, DAY, now + DAY / 2).unwrap(), 0);
        assert!(retained.join("fred-1/node.log").exists());
        assert_eq!(purge_old(&retained, DAY, now + DAY * 2).unwrap(), 1);
        assert!(!retained.join("fred-1").exists() && retained.join("a file of the user").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_removed_does_not_keep_the_others() {
        let retained = tempfile::tempdir().unwrap();
        for name in ["fred-1", "fred-2", "fred-3"] {
            fs::create_dir(retained.path().join(name)).unwrap();
        }
        let later = SystemTime::now() + DAY * 2;
        let remove = |folder: &Path| {
            if folder.ends_with("fred-2") {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            fs::remove_dir_all(folder)
        };
        assert_eq!(purge_with(retained.path(), DAY, later, remove).unwrap(), 2);
        let left = fs::read_dir(retained.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["fred-2"]);
    }
}
