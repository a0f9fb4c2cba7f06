//! Whether memory ran out: the kernel counts whom it kills for that.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What became of the kernel's counter between the start and the end of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OomKills {
    /// Somebody was killed for want of memory, perhaps this node.
    Rose,
    /// Nobody was.
    Same,
    /// Nobody can tell.
    Unreadable,
}

/// The counter, and what it showed at first.
#[derive(Debug)]
pub(super) struct OomCounter {
    place: Option<(PathBuf, u64)>,
}

impl OomCounter {
    /// Reads it for the first time: the one that is given, else that of our own control group, else the machine's.
    pub(super) fn begin(given: Option<PathBuf>) -> Self {
        let candidates = match given {
            Some(path) => vec![path],
            None => {
                let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
                let mut candidates = of_groups(&groups);
                candidates.push("/proc/vmstat".into());
                candidates
            }
        };
        let place = candidates.into_iter().find_map(|path| read(&path).map(|count| (path, count)));
        Self { place }
    }

    /// What became of it.
    pub(super) fn end(&self) -> OomKills {
        let Some((path, before)) = &self.place else { return OomKills::Unreadable };
        match read(path) {
            Some(now) if now > *before => OomKills::Rose,
            Some(_) => OomKills::Same,
            None => OomKills::Unreadable,
        }
    }
}

/// Where the control groups of `/proc/self/cgroup` keep their counters. In a container the mount may begin at the
/// group itself, whatever path is told.
fn of_groups(groups: &str) -> Vec<PathBuf> {
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
            of_groups("0::/user.slice/a.scope\n").iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            unified,
            ["/sys/fs/cgroup/user.slice/a.scope/memory.events", "/sys/fs/cgroup/memory.events"]
        );
        let old: Vec<_> =
            of_groups("5:cpu:/x\n4:memory:/job\n").iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            old,
            ["/sys/fs/cgroup/memory/job/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"]
        );
    }

    #[test]
    fn a_counter_rises_stays_or_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        assert_eq!(OomCounter::begin(Some(file.clone())).end(), OomKills::Unreadable);
        fs::write(&file, "max 7\noom 1\noom_kill 1\n").unwrap();
        let counter = OomCounter::begin(Some(file.clone()));
        assert_eq!(counter.end(), OomKills::Same);
        fs::write(&file, "max 9\noom 2\noom_kill 2\n").unwrap();
        assert_eq!(counter.end(), OomKills::Rose);
        fs::remove_file(&file).unwrap();
        assert_eq!(counter.end(), OomKills::Unreadable);
    }
}
