//! The removal of folders that killed testbeds left behind.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::folder::{LOCK, POSTGRES, PREFIX, remove_ours};
use super::output::say;

/// The age after which a folder without a lock file is abandoned; a folder that is being created gets its lock file at
/// once.
const MAKING: Duration = Duration::from_hours(1);

/// The state of a folder that is named like that of a testbed.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    ours: bool,
    lock: LockState,
    age: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockState {
    Held,
    Free,
    Absent,
}

/// Removes every abandoned testbed folder in `temp`; folders that cannot be removed are left to the next sweep.
pub(super) fn sweep(temp: &Path) {
    let Ok(entries) = fs::read_dir(temp) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        // The lock is held during the removal, so that only one of two concurrent sweeps removes the folder.
        let Ok((sighting, _lock)) = inspect(&entry) else { continue };
        if is_to_be_swept(sighting) {
            remove_shared_memory(&path);
            match remove_ours(&path).and_then(|()| fs::remove_dir(&path)) {
                Ok(()) => say!("removed {}, which a killed testbed had left", path.display()),
                Err(error) => say!("cannot remove {}, which a killed testbed left: {error}", path.display()),
            }
        }
    }
}

/// Returns true if a folder has a lock file that no process has locked.
pub(super) fn is_abandoned(dir: &Path) -> io::Result<bool> {
    Ok(lock_of(dir)?.0 == LockState::Free)
}

fn is_to_be_swept(Sighting { ours, lock, age }: Sighting) -> bool {
    ours && match lock {
        LockState::Held => false,
        LockState::Free => true,
        LockState::Absent => age > MAKING,
    }
}

fn inspect(entry: &DirEntry) -> io::Result<(Sighting, Option<File>)> {
    // The metadata of the entry itself: links are not followed.
    let found = entry.metadata()?;
    let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    let (lock, file) = if ours { lock_of(&entry.path())? } else { (LockState::Absent, None) };
    let age = found.modified()?.elapsed().unwrap_or_default();
    Ok((Sighting { ours, lock, age }, file))
}

fn lock_of(dir: &Path) -> io::Result<(LockState, Option<File>)> {
    let file = match File::open(dir.join(LOCK)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((LockState::Absent, None)),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => Ok((LockState::Free, Some(file))),
        Err(TryLockError::WouldBlock) => Ok((LockState::Held, None)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the System V segment of a killed PostgreSQL, which would stay until the machine restarts.
pub(super) fn remove_shared_memory(dir: &Path) {
    let Ok(pid_file) = fs::read_to_string(dir.join(POSTGRES).join("postmaster.pid")) else { return };
    if let Some(id) = segment(&pid_file) {
        // Ignored: the segment may have been removed already, and a leftover segment is no reason to stop.
        let _ = Command::new("ipcrm").args(["--shmem-id", id]).stderr(Stdio::null()).status();
    }
}

/// The id of the shared memory segment: the second word on the seventh line of `postmaster.pid`.
fn segment(pid_file: &str) -> Option<&str> {
    let id = pid_file.lines().nth(6)?.split_whitespace().nth(1)?;
    id.parse::<u32>().is_ok().then_some(id)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::in_use(true, LockState::Held, 9999, false)]
    #[case::left_by_a_kill(true, LockState::Free, 0, true)]
    #[case::of_another_user(false, LockState::Free, 9999, false)]
    #[case::being_made(true, LockState::Absent, 1, false)]
    #[case::killed_while_being_made(true, LockState::Absent, 9999, true)]
    fn only_our_own_abandoned_folders_are_swept(
        #[case] ours: bool,
        #[case] lock: LockState,
        #[case] age: u64,
        #[case] swept: bool,
    ) {
        assert_eq!(is_to_be_swept(Sighting { ours, lock, age: Duration::from_secs(age) }), swept);
    }

    #[test]
    fn a_sweep_removes_what_is_abandoned_and_nothing_else() {
        let temp = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = temp.path().join(name);
            fs::create_dir(&path).unwrap();
            File::create(path.join(LOCK)).unwrap();
            path
        };
        let abandoned = folder("muster-testbed-abandoned");
        let used = folder("muster-testbed-used");
        let other = folder("something-else");
        let lock = File::open(used.join(LOCK)).unwrap();
        lock.lock().unwrap();
        sweep(temp.path());
        assert!(!abandoned.exists());
        assert!(used.exists());
        assert!(other.exists());
    }

    #[test]
    fn the_segment_of_a_killed_postgres_is_read_from_its_pid_file() {
        let pid_file =
            "4242\n/tmp/x/postgres\n1700000000\n5433\n\n127.0.0.1\n  4456651         7\nready   \n";
        assert_eq!(segment(pid_file), Some("7"));
        assert_eq!(segment("4242\n/tmp/x/postgres\n"), None);
    }
}
