//! The processes that tests have started, found by the run's folder in their environment.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The largest number of searches: a process may start another one before it is killed.
const ROUNDS: u32 = 10;

/// The pause between searches, in which killed processes disappear from `/proc`.
const PAUSE: Duration = Duration::from_millis(50);

/// Kills all processes of this user whose environment contains `folder`. A search by process groups or parents would
/// miss some, because some tests start processes that are meant to outlive their parents.
pub(super) fn kill_all_of(folder: &Path) {
    for _ in 0..ROUNDS {
        let found = all_of(folder);
        if found.is_empty() {
            return;
        }
        for pid in found {
            // The process may have ended by itself meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(PAUSE);
    }
}

/// The processes whose environment contains `folder`. Zombies have no environment, and are not listed.
fn all_of(folder: &Path) -> Vec<Pid> {
    let mark = folder.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        environment.windows(mark.len()).any(|part| part == mark).then_some(pid)
    });
    processes.filter(|pid| *pid != rustix::process::getpid()).collect()
}
