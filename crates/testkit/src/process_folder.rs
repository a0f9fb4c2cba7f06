//! Folders of tests that processes may use longer than the process that the test started.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The longest wait for the end of the killed processes.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The interval between checks whether they have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A temporary folder that kills the processes that use it before it is removed. Nodes of local clusters outlive their
/// server, and would create files in the folder while it is removed.
#[derive(Debug)]
pub struct ProcessFolder(TempDir);

impl ProcessFolder {
    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl From<TempDir> for ProcessFolder {
    fn from(folder: TempDir) -> Self {
        Self(folder)
    }
}

impl Drop for ProcessFolder {
    fn drop(&mut self) {
        let deadline = Instant::now() + END_LIMIT;
        loop {
            let processes = processes_in(self.path());
            if processes.is_empty() || Instant::now() > deadline {
                return;
            }
            for process in processes {
                // Fails if it has ended meanwhile.
                let _ = kill_process(process, Signal::KILL);
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }
}

/// Returns the other processes that use the folder: their working directory or an open file is inside, or their command
/// or environment names it. Shims have no environment, and builds open files only from time to time.
fn processes_in(folder: &Path) -> Vec<Pid> {
    let is_inside = |link: PathBuf| fs::read_link(link).is_ok_and(|target| target.starts_with(folder));
    let name = folder.as_os_str().as_encoded_bytes();
    let uses = |process: &PathBuf| {
        is_inside(process.join("cwd"))
            || contains(&process.join("cmdline"), name)
            || contains(&process.join("environ"), name)
            || entries(&process.join("fd")).into_iter().any(is_inside)
    };
    let me = rustix::process::getpid();
    let id = |process: PathBuf| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?);
    let processes = entries(Path::new("/proc")).into_iter().filter(uses).filter_map(id);
    processes.filter(|process| *process != me).collect()
}

/// Returns true if a file contains these bytes; false if it cannot be read.
pub(crate) fn contains(file: &Path, bytes: &[u8]) -> bool {
    fs::read(file).is_ok_and(|text| text.windows(bytes.len()).any(|part| part == bytes))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_writes_to_a_folder_ends_before_the_folder_is_removed() {
        let folder = ProcessFolder::from(tempfile::tempdir().unwrap());
        let path = folder.path().to_owned();
        // Ends by itself if it is not killed.
        let write = "i=0; while test $i -lt 100000; do i=$((i+1)); mkdir -p d && : > d/$i; done";
        let mut writer = Command::new("sh").args(["-c", write]).current_dir(&path).spawn().unwrap();
        while !path.join("d").exists() {
            thread::sleep(CHECK_INTERVAL);
        }
        drop(folder);
        assert!(!path.exists());
        assert!(!writer.wait().unwrap().success(), "it was killed");
    }
}
