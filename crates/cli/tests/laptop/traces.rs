//! Everything of clusters outside the database: processes, sockets, folders.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// Environment variable that all processes of a test's server inherit: nodes inherit variables with this prefix.
pub(crate) const MARK: &str = "LC_MUSTER_TEST";

#[derive(Debug)]
pub(crate) struct Traces {
    /// Nodes and their shims, with their commands.
    pub(crate) processes: Vec<(i32, String)>,
    pub(crate) sockets: Vec<PathBuf>,
    /// Folders of clusters.
    pub(crate) folders: Vec<PathBuf>,
}

impl Traces {
    /// Lists the traces of the server whose files are in `folder`, without the server itself.
    pub(crate) fn find(folder: &Path, clusters: &Path, server: Option<i32>) -> Self {
        let mark = format!("{MARK}={}", folder.display());
        let is_below = |pid| has_mark(pid, &mark) || has_open(pid, folder) || works_in(pid, folder);
        let ours = |pid: &i32| Some(*pid) != server && is_below(*pid);
        let runtimes = entries(folder).into_iter().map(|entry| entry.join("muster"));
        let is_socket =
            |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        Self {
            processes: processes().filter(ours).map(|pid| (pid, command(pid))).collect(),
            sockets: runtimes.flat_map(|runtime| entries(&runtime)).filter(is_socket).collect(),
            folders: entries(clusters),
        }
    }

    pub(crate) fn assert_none(&self) {
        let none = self.processes.is_empty() && self.sockets.is_empty() && self.folders.is_empty();
        assert!(none, "something of a cluster is left: {self:#?}");
    }

    pub(crate) fn kill(&self) {
        self.processes.iter().for_each(|(pid, _)| kill(*pid));
    }
}

/// Kills a process.
pub(crate) fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Stops a process: it does nothing and answers no request until it is continued.
pub(crate) fn freeze(pid: i32) {
    signal(pid, Signal::STOP);
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended already.
    let _ = kill_process(Pid::from_raw(pid).expect("a process has a number"), signal);
}

fn processes() -> impl Iterator<Item = i32> {
    entries(Path::new("/proc")).into_iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok())
}

fn has_mark(pid: i32, mark: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
}

/// Shims have no environment; they are recognised by the open lock of their node.
fn has_open(pid: i32, folder: &Path) -> bool {
    let is_below = |file: PathBuf| fs::read_link(file).is_ok_and(|target| target.starts_with(folder));
    let is_shim = command(pid).starts_with("muster shim");
    is_shim && entries(&PathBuf::from(format!("/proc/{pid}/fd"))).into_iter().any(is_below)
}

/// Some programs overwrite their environment with their title.
fn works_in(pid: i32, folder: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place.starts_with(folder))
}

/// Lists the short folders for sockets of frameworks, which may be anywhere.
pub(crate) fn short_folders(clusters: &Path) -> Vec<PathBuf> {
    let read = |cluster: PathBuf| fs::read(cluster.join("short.json")).ok();
    let parse = |text: Vec<u8>| serde_json::from_slice(&text).ok();
    entries(clusters).into_iter().filter_map(read).filter_map(parse).collect()
}

fn command(pid: i32) -> String {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&text).replace('\0', " ")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
