//! Detection of kills for lack of memory, by a counter of the kernel.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The change of the kernel's counter between the start and the end of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomKills {
    /// The kernel killed a process for lack of memory, perhaps of this node.
    Rose,
    /// The counter did not change.
    Same,
    /// The counter cannot be read.
    Unreadable,
}

/// A counter and its value at the start.
#[derive(Debug)]
pub(super) struct OomCounter {
    counter: Option<(PathBuf, u64)>,
}

impl OomCounter {
    /// Reads the initial value: of the given file, else of the own control group, else of the machine.
    pub(super) fn start(given: Option<PathBuf>) -> Self {
        let candidates = match given {
            Some(path) => vec![path],
            None => {
                let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
                let mut candidates = counter_candidates(&groups);
                candidates.push("/proc/vmstat".into());
                candidates
            }
        };
        let counter = candidates.into_iter().find_map(|path| read(&path).map(|count| (path, count)));
        Self { counter }
    }

    /// Compares the counter with its initial value.
    pub(super) fn compare(&self) -> OomKills {
        let Some((path, before)) = &self.counter else { return OomKills::Unreadable };
        match read(path) {
            Some(now) if now > *before => OomKills::Rose,
            Some(_) => OomKills::Same,
            None => OomKills::Unreadable,
        }
    }
}

/// Lists files that may contain the counters of the control groups in `/proc/self/cgroup`. In a container the group
/// itself may be mounted at the root, whatever path that file names.
fn counter_candidates(groups: &str) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (root, file) = if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", "memory.oom_control")
        } else if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.events")
        } else {
            continue;
        };
        let root = Path::new(root);
        candidates.push(root.join(path.trim_start_matches('/')).join(file));
        candidates.push(root.join(file));
    }
    candidates
}

fn read(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")).and_then(|count| count.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_of_either_kind_of_control_group_is_found() {
        let unified: Vec<_> =
            counter_candidates("0::/user.slice/a.scope\n").iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            unified,
            ["/sys/fs/cgroup/user.slice/a.scope/memory.events", "/sys/fs/cgroup/memory.events"]
        );
        let old: Vec<_> =
            counter_candidates("5:cpu:/x\n4:memory:/job\n").iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            old,
            ["/sys/fs/cgroup/memory/job/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"]
        );
    }

    #[test]
    fn a_counter_rises_stays_or_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        assert_eq!(OomCounter::start(Some(file.clone())).compare(), OomKills::Unreadable);
        fs::write(&file, "max 7\noom 1\noom_kill 1\n").unwrap();
        let counter = OomCounter::start(Some(file.clone()));
        assert_eq!(counter.compare(), OomKills::Same);
        fs::write(&file, "max 9\noom 2\noom_kill 2\n").unwrap();
        assert_eq!(counter.compare(), OomKills::Rose);
        fs::remove_file(&file).unwrap();
        assert_eq!(counter.compare(), OomKills::Unreadable);
    }
}
