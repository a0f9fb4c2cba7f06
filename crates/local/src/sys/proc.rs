//! What `/proc` tells of processes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// A process of one boot: numbers are used again, a number with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// When it started, in the kernel's ticks since the boot.
    pub start_time: u64,
}

impl ProcessId {
    /// Who has this number now; nothing if nobody has, or somebody who has ended and waits to be reaped.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        (!stat.ended).then_some(Self { pid, start_time: stat.start_time })
    }

    /// Whether a process is of the session that this one led, and has not ended. Says no while it lives, or if its
    /// number is somebody else's by now: then so may be the session.
    pub(crate) fn led(self, pid: i32) -> bool {
        let of_session =
            |stat: Stat| !stat.ended && stat.session == self.pid && stat.start_time >= self.start_time;
        Self::of(self.pid).is_none() && Stat::read(pid).is_some_and(of_session)
    }
}

struct Stat {
    ended: bool,
    parent: i32,
    session: i32,
    start_time: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is a name in parentheses, and may itself hold spaces and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            ended: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Which boot of the machine this is; none of us lives to see another.
pub(crate) fn boot_id() -> io::Result<&'static str> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known);
    }
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    Ok(KNOWN.get_or_init(|| read))
}

/// Our children, those that wait to be reaped included. One that comes or goes meanwhile may be missed: ask again.
pub(crate) fn children() -> Vec<i32> {
    let me = super::own_pid();
    // The shim has one thread, and a child belongs to the thread that started or adopted it.
    match fs::read_to_string(format!("/proc/{me}/task/{me}/children")) {
        Ok(list) => list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        // Not every kernel is built with that file.
        Err(_) => numbers().filter(|pid| Stat::read(*pid).is_some_and(|stat| stat.parent == me)).collect(),
    }
}

/// The numbers of all processes of our user, but for ourselves.
pub(crate) fn own_processes() -> impl Iterator<Item = i32> {
    let (me, user) = (super::own_pid(), super::user());
    let ours = move |pid: &i32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == user);
    numbers().filter(move |pid| *pid != me).filter(ours)
}

fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process was started with this `NAME=value`. One that has ended has no environment.
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
    }

    #[test]
    fn a_process_that_waits_to_be_reaped_has_ended() {
        let line = "42 (x) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 5 0 0";
        assert!(Stat::parse(line).unwrap().ended);
    }

    #[test]
    fn we_are_ourselves_and_nobody_is_number_minus_one() {
        let me = super::super::own_pid();
        assert_eq!(ProcessId::of(me), ProcessId::of(me));
        assert!(ProcessId::of(me).is_some());
        assert_eq!(ProcessId::of(-1), None);
    }
}
