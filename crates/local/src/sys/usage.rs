//! Measurement of the CPU time and memory of processes, by `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::proc::{Stat, numbers};

/// The number of ticks per second of CPU times in `/proc` (`USER_HZ`): 100 on every architecture that Muster supports.
const TICKS_PER_SECOND: u64 = 100;

/// The CPU time and memory of a process, and its place in the process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    parent: i32,
    start_time: u64,
    cpu_ticks: u64,
    memory: u64,
}

/// A snapshot of all processes of this machine.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    processes: HashMap<i32, Used>,
}

impl ProcessTable {
    /// Reads the table. Processes that end during the read are left out.
    pub(crate) fn read() -> Self {
        let used = |pid: i32| {
            let Stat { parent, start_time, cpu_ticks, ended, .. } = Stat::read(pid)?;
            (!ended).then(|| (pid, Used { parent, start_time, cpu_ticks, memory: resident(pid) }))
        };
        Self { processes: numbers().filter_map(used).collect() }
    }

    /// Returns all descendants of a process, without the process itself.
    fn below(&self, root: i32) -> HashSet<i32> {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for (pid, used) in &self.processes {
            children.entry(used.parent).or_default().push(*pid);
        }
        let (mut found, mut next) = (HashSet::new(), vec![root]);
        while let Some(pid) = next.pop() {
            let new = children.remove(&pid).unwrap_or_default();
            next.extend(&new);
            found.extend(new);
        }
        found.remove(&root);
        found
    }

    /// Returns the CPU time since an earlier table, in milliseconds, and the present resident memory, in bytes, of all
    /// descendants of a process. Memory that processes share counts for each of them.
    pub(crate) fn used_below(&self, root: i32, earlier: &Self) -> (u64, u64) {
        let (mut ticks, mut memory) = (0_u64, 0_u64);
        for pid in self.below(root) {
            let Some(now) = self.processes.get(&pid) else { continue };
            // The number of a process that has ended may have been reused since.
            let before = earlier.processes.get(&pid).filter(|before| before.start_time == now.start_time);
            ticks += now.cpu_ticks.saturating_sub(before.map_or(0, |before| before.cpu_ticks));
            memory += now.memory;
        }
        (ticks * 1_000 / TICKS_PER_SECOND, memory)
    }
}

/// Returns the resident memory of a process in bytes; 0 if the process has ended.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    resident_in(&status)
}

fn resident_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(processes: &[(i32, i32, u64, u64, u64)]) -> ProcessTable {
        let one = |(pid, parent, start_time, cpu_ticks, memory): &(i32, i32, u64, u64, u64)| {
            let used =
                Used { parent: *parent, start_time: *start_time, cpu_ticks: *cpu_ticks, memory: *memory };
            (*pid, used)
        };
        ProcessTable { processes: processes.iter().map(one).collect() }
    }

    #[test]
    fn what_is_below_a_process_is_summed_and_the_process_itself_is_not() {
        let before = table(&[(1, 0, 1, 900, 9), (10, 1, 5, 7, 1), (11, 10, 5, 30, 2), (12, 11, 5, 40, 3)]);
        // 12 has ended, and another process has its number; 13 is new.
        let now = table(&[
            (1, 0, 1, 999, 9),
            (10, 1, 5, 9, 1),
            (11, 10, 5, 45, 20),
            (12, 11, 8, 10, 300),
            (13, 12, 8, 5, 4_000),
            (14, 1, 8, 77, 50_000),
        ]);
        assert_eq!(now.used_below(10, &before), ((15 + 10 + 5) * 10, 4_320));
        assert_eq!(now.used_below(99, &before), (0, 0));
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_in("Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t 1 kB\n"), 2 << 20);
        assert_eq!(resident_in("Name:\tx\n"), 0);
    }

    #[test]
    fn a_child_of_ours_uses_memory() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it is there");
        let (_, memory) = ProcessTable::read().used_below(super::super::own_pid(), &ProcessTable::default());
        child.kill().expect("it runs");
        child.wait().expect("it is a child");
        assert!(memory > 0);
    }
}
