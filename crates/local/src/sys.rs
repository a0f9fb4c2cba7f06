//! System calls, and what `/proc` tells of processes. Linux only; all of it safe code.

mod folder;
mod pidfd;
mod proc;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};

pub(crate) use folder::FolderWatch;
pub(crate) use pidfd::Pidfd;
pub use proc::ProcessId;
pub(crate) use proc::{boot_id, children, environment_has, own_processes};

/// The user we act for.
pub(crate) fn user() -> u32 {
    process::geteuid().as_raw()
}

/// Our own process id.
pub(crate) fn own_pid() -> i32 {
    process::getpid().as_raw_pid()
}

/// Leaves the session of whoever started us, so that no terminal and no group signal of theirs reaches us.
pub(crate) fn own_session() -> io::Result<()> {
    match process::setsid() {
        // The leader of a group cannot; a shell with job control starts commands as such.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes orphans among our descendants our children, so that none can slip away.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

/// Has the kernel signal us when our parent's thread ends. False if the parent is another already.
pub(crate) fn end_with(parent: i32, signal: Signal) -> io::Result<bool> {
    process::set_parent_process_death_signal(Some(signal))?;
    Ok(process::getppid().is_some_and(|found| found.as_raw_pid() == parent))
}

/// Leads a process group from now on.
pub(crate) fn own_group() -> io::Result<()> {
    Ok(process::setpgid(None, None)?)
}

/// Signals a process group. The caller knows that its leader was not reaped, so that the number is not another's.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    if let Some(leader) = Pid::from_raw(leader) {
        // Nobody left in it is what a signal is for.
        let _ = process::kill_process_group(leader, signal);
    }
}

/// Whether a process group has processes.
pub(crate) fn has_group(leader: i32) -> bool {
    Pid::from_raw(leader).is_some_and(|leader| process::test_kill_process_group(leader).is_ok())
}

/// Kills a child of ours; its number cannot be another's until we reap it.
pub(crate) fn kill_child(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = process::kill_process(pid, Signal::KILL);
    }
}

/// Whether a child has ended; it stays to be reaped.
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

/// Reaps a child of any number, and waits for it.
pub(crate) fn wait_for(child: i32) {
    if let Some(pid) = Pid::from_raw(child) {
        let _ = process::waitpid(Some(pid), WaitOptions::empty());
    }
}

/// Reaps whatever has ended; true once there is no child left.
pub(crate) fn reap_all() -> bool {
    loop {
        match process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// Takes standard input away from whatever we become, and keeps it for us: it closes when we become that.
pub(crate) fn keep_stdin() -> io::Result<File> {
    let kept = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(File::from(kept))
}

/// Lets go of standard input, output and errors.
pub(crate) fn close_stdio() -> io::Result<()> {
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Reads what is there now; nothing at the end, or if nothing is there.
pub(crate) fn read_now(fd: impl AsFd, buffer: &mut [u8]) -> Option<usize> {
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut *buffer));
    read.ok().filter(|length| *length > 0)
}
