//! One part of the testbed: a folder that is complete or is rebuilt.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::lock::FileLock;

/// The file that marks a part as complete. Users of the part share its lock.
const WHOLE: &str = "complete";

/// A folder of the cache, named by the hash of its ingredients.
pub(super) struct CachedPart {
    testbed: PathBuf,
    name: String,
    key: String,
}

impl CachedPart {
    /// The part `name` that is built from `ingredients`.
    pub(super) fn new(testbed: &Path, name: &str, ingredients: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for ingredient in ingredients {
            hash.update(ingredient.len().to_le_bytes());
            hash.update(ingredient);
        }
        let key = hash.finalize().iter().take(6).fold(0_u64, |key, byte| key << 8 | u64::from(*byte));
        Self { testbed: testbed.to_owned(), name: name.to_owned(), key: format!("{key:012x}") }
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.testbed.join(format!("{}-{}", self.name, self.key))
    }

    /// The log of the part's build.
    pub(super) fn log(&self) -> PathBuf {
        self.testbed.join(format!("{}.log", self.name))
    }

    /// Builds the part unless it is complete and contains these files; the leftovers of an interrupted run are removed
    /// first. The part is in use as long as the returned lock is held.
    pub(super) fn make(&self, files: &[&str], make: impl FnOnce(&Path) -> Result<()>) -> Result<FileLock> {
        let folder = self.folder();
        let whole = folder.join(WHOLE);
        if !whole.exists() || absent(&folder, files).is_some() {
            remove(&folder)?;
            fs::create_dir_all(scratch(&folder))?;
            make(&folder)?;
            if let Some(file) = absent(&folder, files) {
                bail!("{} was made without {file}", folder.display());
            }
            remove(&scratch(&folder))?;
            fs::write(&whole, "")?;
            self.remove_others();
        }
        FileLock::share(&whole)
    }

    /// Removes builds from other ingredients, unless they are in use.
    fn remove_others(&self) {
        let Ok(entries) = fs::read_dir(&self.testbed) else { return };
        for entry in entries.flatten().filter(|entry| entry.path() != self.folder()) {
            let folder_name = entry.file_name().to_string_lossy().into_owned();
            let key = folder_name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('-'));
            if !key.is_some_and(is_key) {
                continue;
            }
            let whole = entry.path().join(WHOLE);
            // Users lock a part within `make`, which one process at a time runs, so that the part cannot come into use
            // meanwhile.
            if whole.exists() && !matches!(FileLock::try_take(&whole), Ok(Some(_))) {
                continue;
            }
            // A part that cannot be removed does no harm: the next build tries again.
            if remove(&entry.path()).is_ok() {
                eprintln!("  removed {folder_name}, which was made from other pins");
            }
        }
    }
}

/// The folder for temporary files of builds, which is removed with the part after a killed build.
pub(super) fn scratch(folder: &Path) -> PathBuf {
    folder.join("tmp")
}

/// The first of the files that is missing or empty.
fn absent<'a>(folder: &Path, files: &[&'a str]) -> Option<&'a str> {
    let there = |file: &str| fs::metadata(folder.join(file)).is_ok_and(|found| found.len() > 0);
    files.iter().find(|file| !there(file)).copied()
}

fn is_key(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_program(folder: &Path) -> Result<()> {
        Ok(fs::write(folder.join("kwok"), "program")?)
    }

    fn part(cache: &tempfile::TempDir, pins: &[u8]) -> CachedPart {
        CachedPart::new(cache.path(), "kwok", &[pins])
    }

    #[test]
    fn other_ingredients_are_another_folder() {
        let folder =
            |ingredients: &[&[u8]]| CachedPart::new(Path::new("cache"), "kwok", ingredients).folder();
        assert_eq!(folder(&[b"a", b"b"]), folder(&[b"a", b"b"]));
        assert_ne!(folder(&[b"a", b"b"]), folder(&[b"a", b"c"]));
        assert_ne!(folder(&[b"ab", b""]), folder(&[b"a", b"b"]));
    }

    #[test]
    fn a_half_made_part_is_made_again_and_a_whole_one_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let part = part(&cache, b"pins");
        let fails = part.make(&["kwok"], |folder| {
            fs::write(folder.join("half"), "")?;
            bail!("killed")
        });
        assert!(fails.is_err());
        part.make(&["kwok"], |folder| {
            assert!(!folder.join("half").exists(), "what the killed build left is still there");
            write_program(folder)
        })
        .unwrap();
        part.make(&["kwok"], |_| bail!("made twice")).unwrap();
    }

    #[test]
    fn a_part_whose_program_was_lost_is_made_again() {
        let cache = tempfile::tempdir().unwrap();
        let part = part(&cache, b"pins");
        let program = part.folder().join("kwok");
        part.make(&["kwok"], write_program).unwrap();
        fs::write(&program, "").unwrap();
        part.make(&["kwok"], write_program).unwrap();
        assert_eq!(fs::read_to_string(&program).unwrap(), "program");
        fs::remove_file(&program).unwrap();
        part.make(&["kwok"], write_program).unwrap();
        assert!(program.exists());
    }

    #[test]
    fn a_part_that_lacks_a_program_after_its_making_is_not_whole() {
        let cache = tempfile::tempdir().unwrap();
        let error = part(&cache, b"pins").make(&["kwok"], |_| Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("was made without kwok"), "{error}");
    }

    #[test]
    fn a_part_of_other_pins_is_removed_unless_it_is_in_use() {
        let cache = tempfile::tempdir().unwrap();
        let namesake = cache.path().join("kwok-tools-0123456789ab");
        fs::create_dir(&namesake).unwrap();
        let (old, used, new) = (part(&cache, b"old"), part(&cache, b"used"), part(&cache, b"new"));
        let in_use = used.make(&["kwok"], write_program).unwrap();
        old.make(&["kwok"], write_program).unwrap();
        new.make(&["kwok"], write_program).unwrap();
        assert!(!old.folder().exists());
        assert!(used.folder().exists());
        assert!(namesake.exists());
        drop(in_use);
    }
}
