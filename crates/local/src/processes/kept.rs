//! Logs of clusters that are gone.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Removes the folders into which nothing was put for so long; says how many.
pub(super) fn purge(folder: &Path, keep: Duration, now: SystemTime) -> io::Result<usize> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut count = 0;
    for entry in entries {
        let entry = entry?;
        let found = entry.metadata()?;
        // A folder changes when a log is put into it; the logs themselves are as old as their last line.
        let is_old = now.duration_since(found.modified()?).is_ok_and(|age| age > keep);
        if found.is_dir() && is_old {
            fs::remove_dir_all(entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn logs_go_when_they_were_kept_long_enough() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, now) = (folder.path().join("logs"), SystemTime::now());
        assert_eq!(purge(&kept, DAY, now).unwrap(), 0, "there need not be any");
        fs::create_dir_all(kept.join("fred-1")).unwrap();
        fs::write(kept.join("fred-1/node.log"), "last words").unwrap();
        fs::write(kept.join("somebody's file"), "not ours").unwrap();
        assert_eq!(purge(&kept, DAY, now + DAY / 2).unwrap(), 0);
        assert!(kept.join("fred-1/node.log").exists());
        assert_eq!(purge(&kept, DAY, now + DAY * 2).unwrap(), 1);
        assert!(!kept.join("fred-1").exists() && kept.join("somebody's file").exists());
    }
}
