//! System calls of Linux and reads of `/proc`, all in safe code.

mod folder_watch;
mod pidfd;
mod proc;
mod usage;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};

pub(crate) use folder_watch::FolderWatch;
pub(crate) use pidfd::Pidfd;
pub use proc::ProcessId;
pub(crate) use proc::{boot_id, children, environment_has, own_processes};
pub(crate) use usage::ProcessTable;

/// Returns the effective user id of this process.
pub(crate) fn user_id() -> u32 {
    process::geteuid().as_raw()
}

/// Returns the id of this process.
pub(crate) fn own_pid() -> i32 {
    process::getpid().as_raw_pid()
}

/// Starts a session, so that no terminal and no group signal of the parent's session reaches this process.
pub(crate) fn start_session() -> io::Result<()> {
    match process::setsid() {
        // A group leader cannot start a session; shells with job control start commands as group leaders.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes this process the parent of orphaned descendants, so that none escapes supervision.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

/// Makes the kernel signal this process when the parent's thread ends. Returns false if the parent has ended already.
pub(crate) fn set_parent_death_signal(parent: i32, signal: Signal) -> io::Result<bool> {
    process::set_parent_process_death_signal(Some(signal))?;
    Ok(process::getppid().is_some_and(|found| found.as_raw_pid() == parent))
}

/// Makes this process the leader of its own process group.
pub(crate) fn start_process_group() -> io::Result<()> {
    Ok(process::setpgid(None, None)?)
}

/// Signals a process group. The caller ensures that the leader is not reaped yet, so that its number is not reused.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    if let Some(leader) = Pid::from_raw(leader) {
        // An error means that the group is empty, which is the goal of every signal here.
        let _ = process::kill_process_group(leader, signal);
    }
}

/// Returns true if the process group has processes.
pub(crate) fn has_group(leader: i32) -> bool {
    Pid::from_raw(leader).is_some_and(|leader| process::test_kill_process_group(leader).is_ok())
}

/// Kills a child; its number cannot be reused before this process reaps it.
pub(crate) fn kill_child(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = process::kill_process(pid, Signal::KILL);
    }
}

/// Returns true if a child has ended, without reaping it.
pub(crate) fn has_ended(child: i32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let pid = Pid::from_raw(child);
    pid.is_some_and(|pid| matches!(process::waitid(WaitId::Pid(pid), options), Ok(Some(_))))
}

/// Reaps one child if it has ended.
pub(crate) fn reap(child: i32) -> Option<WaitStatus> {
    let pid = Pid::from_raw(child)?;
    process::waitpid(Some(pid), WaitOptions::NOHANG).ok().flatten().map(|(_, status)| status)
}

/// Waits for a child to end and reaps it.
pub(crate) fn wait_for_child(child: i32) {
    if let Some(pid) = Pid::from_raw(child) {
        let _ = process::waitpid(Some(pid), WaitOptions::empty());
    }
}

/// Reaps all children that have ended; returns true if no child is left.
pub(crate) fn reap_all() -> bool {
    loop {
        match process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Moves standard input to a descriptor that closes at exec, and leaves `/dev/null` in its place for the executed
/// program.
pub(crate) fn take_stdin() -> io::Result<File> {
    let moved = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(File::from(moved))
}

/// Replaces standard input, output and error by `/dev/null`.
pub(crate) fn close_stdio() -> io::Result<()> {
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Reads the available bytes; `None` at the end of the file, or if no bytes are available.
pub(crate) fn read_available(fd: impl AsFd, buffer: &mut [u8]) -> Option<usize> {
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut *buffer));
    read.ok().filter(|length| *length > 0)
}
