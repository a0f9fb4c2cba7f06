//! Reading the state of processes from `/proc`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// Identifies a process within one boot. Numbers are reused, but not together with a start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: i32,
    /// The start time in kernel ticks since boot.
    pub start_time: u64,
}

impl ProcessId {
    /// Returns the running process with this number; `None` if there is none, or a zombie.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        (!stat.ended).then_some(Self { pid, start_time: stat.start_time })
    }

    /// Returns true if a running process belongs to the session that this process led before it ended. Returns false
    /// while this process runs, and if its number was reused, since the session id may be reused as well.
    pub(crate) fn led_session_of(self, pid: i32) -> bool {
        let belongs =
            |stat: Stat| !stat.ended && stat.session == self.pid && stat.start_time >= self.start_time;
        Self::find(self.pid).is_none() && Stat::read(pid).is_some_and(belongs)
    }
}

/// The fields of `/proc/<pid>/stat` that are used.
pub(super) struct Stat {
    pub(super) ended: bool,
    pub(super) parent: i32,
    session: i32,
    /// The CPU time of all threads of the process, in the kernel's ticks.
    pub(super) cpu_ticks: u64,
    pub(super) start_time: u64,
}

impl Stat {
    pub(super) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a line of `/proc/<pid>/stat`. Its second field is a name in parentheses, which may contain both spaces
    /// and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            ended: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            cpu_ticks: fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns the id of the current boot. It is cached, since no process outlives a boot.
pub(crate) fn boot_id() -> io::Result<&'static str> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known);
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(KNOWN.get_or_init(|| read))
}

/// Lists the children of this process, including zombies. May miss children that start or end during the call.
pub(crate) fn children() -> Vec<i32> {
    let me = super::own_pid();
    // The kernel lists children by the thread that started or adopted them; the shim has only one thread.
    match fs::read_to_string(format!("/proc/{me}/task/{me}/children")) {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // Not every kernel is built with that file.
        Err(_) => numbers().filter(|pid| Stat::read(*pid).is_some_and(|stat| stat.parent == me)).collect(),
    }
}

/// Lists the numbers of all processes of this user, except this process.
pub(crate) fn own_processes() -> impl Iterator<Item = i32> {
    let (me, user) = (super::own_pid(), super::user_id());
    let ours = move |pid: &i32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == user);
    numbers().filter(move |pid| *pid != me).filter(ours)
}

/// Lists the numbers of all processes.
pub(super) fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns true if a process was started with the variable `NAME=value`; false if it has ended.
pub(crate) fn environment_has(pid: i32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0";
        let stat = Stat::parse(line).unwrap();
        let (ended, numbers) = (stat.ended, (stat.parent, stat.session));
        assert_eq!((ended, numbers, stat.start_time), (false, (7, 41), 987_654));
        assert_eq!(stat.cpu_ticks, 5 + 6);
    }

    #[test]
    fn a_zombie_has_ended() {
        let line = "42 (x) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 5 0 0";
        assert!(Stat::parse(line).unwrap().ended);
    }

    #[test]
    fn this_process_is_found_and_number_minus_one_is_not() {
        let me = super::super::own_pid();
        assert_eq!(ProcessId::find(me), ProcessId::find(me));
        assert!(ProcessId::find(me).is_some());
        assert_eq!(ProcessId::find(-1), None);
    }
}
