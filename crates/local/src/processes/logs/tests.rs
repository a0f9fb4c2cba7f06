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
    fn of(texts: &[&str]) -> Self {
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

    fn rotate(&self) {
        fs::rename(self.folder.log(), self.folder.path().join("log.1")).expect("it is moved");
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
    let logs = Logs::of(files);
    let query = LogQuery { tail, ..LogQuery::default() };
    let text: String = read_log(&logs.folder, query, LogFollow::No).unwrap().try_collect().await.unwrap();
    assert_eq!(text, expected);
}

#[tokio::test]
async fn a_followed_log_continues_after_a_rotation_until_its_folder_is_removed() {
    let logs = Logs::of(&["a\n"]);
    let mut lines = read_log(&logs.folder, LogQuery::default(), LogFollow::UntilRemoved).unwrap();
    let mut next = async || lines.try_next().await.unwrap();
    assert_eq!(next().await.as_deref(), Some("a\n"));
    logs.append("b\nhal");
    assert_eq!(next().await.as_deref(), Some("b\n"));
    logs.append("f\n");
    assert_eq!(next().await.as_deref(), Some("half\n"));
    logs.append("last of the old\n");
    logs.rotate();
    logs.append("first of the new\n");
    assert_eq!(next().await.as_deref(), Some("last of the old\n"));
    assert_eq!(next().await.as_deref(), Some("first of the new\n"));
    fs::remove_dir_all(logs.parent.path()).unwrap();
    assert_eq!(next().await, None);
}
