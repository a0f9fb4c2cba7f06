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
    /// Files by their age, the newest first.
    fn of(texts: &[&str]) -> Self {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(Uuid::from_u128(7)));
        folder.make().expect("a folder");
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
async fn the_last_lines_are_found_in_whatever_file_they_are(
    #[case] files: &[&str],
    #[case] tail: Option<usize>,
    #[case] expected: &str,
) {
    let logs = Logs::of(files);
    let text: String = read(&logs.folder, tail, false).unwrap().try_collect().await.unwrap();
    assert_eq!(text, expected);
}

#[tokio::test]
async fn whoever_follows_sees_what_is_added_also_in_the_next_file_until_the_folder_is_gone() {
    let logs = Logs::of(&["a\n"]);
    let mut lines = read(&logs.folder, None, true).unwrap();
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
