use std::fs;
use std::io::Write as _;

use futures::TryStreamExt as _;
use muster_core::ids::NodeId;
use rstest::rstest;
use uuid::Uuid;

use super::*;

struct Logs {
    parent: tempfile::TempDir,
    folder: NodeFolder,
}

impl Logs {
    /// Creates log files, the newest first.
    fn create(texts: &[&str]) -> Self {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(Uuid::from_u128(7)));
        folder.create().expect("a folder");
        for (age, text) in texts.iter().enumerate() {
            let name = if age == 0 { "log".to_owned() } else { format!("log.{age}") };
            fs::write(folder.path().join(name), text).expect("a log");
        }
        Self { parent, folder }
    }

    fn append(&self, text: &str) {
        let mut log = File::options().append(true).open(self.folder.log()).expect("the log");
        log.write_all(text.as_bytes()).expect("it is written");
    }

    /// Rotates the log, and keeps this number of older files.
    fn rotate(&self, keep: u32) {
        let older = |age: u32| self.folder.path().join(format!("log.{age}"));
        for age in (1..keep).rev().filter(|age| older(*age).exists()) {
            fs::rename(older(age), older(age + 1)).expect("it is moved");
        }
        fs::rename(self.folder.log(), older(1)).expect("it is moved");
        File::create(self.folder.log()).expect("a new one");
    }
}

#[rstest]
#[case(&["c\nd\n", "b\n", "a\n"], None, "a\nb\nc\nd\n")]
#[case(&["c\nd\n", "b\n", "a\n"], Some(3), "b\nc\nd\n")]
#[case(&["c\nd\n", "b\n", "a\n"], Some(2), "c\nd\n")]
#[case(&["c\nd\n", "b\n", "a\n"], Some(1), "d\n")]
#[case(&["c\nd\n", "b\n", "a\n"], Some(9), "a\nb\nc\nd\n")]
#[case(&["c\nd\n"], Some(0), "")]
#[case(&["c\nhalf"], Some(1), "half")]
#[case(&["", "b\n"], Some(1), "b\n")]
#[case(&[""], None, "")]
#[case(&[], None, "")]
#[tokio::test]
async fn the_last_lines_are_found_across_files(
    #[case] files: &[&str],
    #[case] tail: Option<usize>,
    #[case] expected: &str,
) {
    let logs = Logs::create(files);
    let query = LogQuery { tail, ..LogQuery::default() };
    let text: String =
        read_log(&logs.folder, query, LogFollow::No).await.unwrap().try_collect().await.unwrap();
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_followed_log_continues_after_a_rotation_until_its_folder_is_removed() {
    let logs = Logs::create(&["a\n"]);
    let mut lines = read_log(&logs.folder, LogQuery::default(), LogFollow::UntilRemoved).await.unwrap();
    let mut next = async || lines.try_next().await.unwrap();
    assert_eq!(next().await.as_deref(), Some("a\n"));
    logs.append("b\nhal");
    assert_eq!(next().await.as_deref(), Some("b\n"));
    logs.append("f\n");
    assert_eq!(next().await.as_deref(), Some("half\n"));
    logs.append("last of the old\n");
    logs.rotate(1);
    logs.append("first of the new\n");
    assert_eq!(next().await.as_deref(), Some("last of the old\n"));
    assert_eq!(next().await.as_deref(), Some("first of the new\n"));
    fs::remove_dir_all(logs.parent.path()).unwrap();
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn no_file_is_skipped_if_the_log_is_rotated_several_times_between_two_reads() {
    let logs = Logs::create(&["a\n"]);
    let mut lines = read_log(&logs.folder, LogQuery::default(), LogFollow::UntilRemoved).await.unwrap();
    let mut next = async || lines.try_next().await.unwrap();
    assert_eq!(next().await.as_deref(), Some("a\n"));
    for line in ["b\n", "c\n", "d\n"] {
        logs.rotate(3);
        logs.append(line);
    }
    for line in ["b\n", "c\n", "d\n"] {
        assert_eq!(next().await.as_deref(), Some(line));
    }
    // The file that was read last is removed, and so is the next one.
    for line in ["e\n", "f\n", "g\n", "h\n", "i\n"] {
        logs.rotate(3);
        logs.append(line);
    }
    for line in ["f\n", "g\n", "h\n", "i\n"] {
        assert_eq!(next().await.as_deref(), Some(line));
    }
}

#[tokio::test]
async fn files_that_are_rotated_while_older_ones_are_read_are_not_skipped() {
    let logs = Logs::create(&["c\n", "b\n", "a\n"]);
    let mut lines = read_log(&logs.folder, LogQuery::default(), LogFollow::No).await.unwrap();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("a\n"));
    logs.rotate(3);
    logs.append("d\n");
    let rest: String = lines.try_collect().await.unwrap();
    assert_eq!(rest, "b\nc\nd\n");
}
