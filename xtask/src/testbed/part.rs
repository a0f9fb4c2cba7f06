//! One part of the testbed: a folder that is whole, or made again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

/// A folder of the cache, named by what it is made from.
pub(super) struct Part {
    pub(super) folder: PathBuf,
}

impl Part {
    /// The part `name` made from `ingredients`.
    pub(super) fn new(testbed: &Path, name: &str, ingredients: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for ingredient in ingredients {
            hash.update(ingredient.len().to_le_bytes());
            hash.update(ingredient);
        }
        let key = hash.finalize().iter().take(6).fold(0_u64, |key, byte| key << 8 | u64::from(*byte));
        Self { folder: testbed.join(format!("{name}-{key:012x}")) }
    }

    /// Makes the part unless it is whole; what an interrupted run left is removed first.
    pub(super) fn make(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let whole = self.folder.join("complete");
        if whole.exists() {
            return Ok(());
        }
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)
                .with_context(|| format!("cannot remove the unfinished {}", self.folder.display()))?;
        }
        std::fs::create_dir_all(&self.folder)?;
        make(&self.folder)?;
        std::fs::write(whole, "")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_ingredients_are_another_folder() {
        let folder = |ingredients: &[&[u8]]| Part::new(Path::new("cache"), "kwok", ingredients).folder;
        assert_eq!(folder(&[b"a", b"b"]), folder(&[b"a", b"b"]));
        assert_ne!(folder(&[b"a", b"b"]), folder(&[b"a", b"c"]));
        assert_ne!(folder(&[b"ab", b""]), folder(&[b"a", b"b"]));
    }

    #[test]
    fn a_half_made_part_is_made_again_and_a_whole_one_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let part = Part::new(cache.path(), "kwok", &[b"pins"]);
        let fails = part.make(|folder| {
            std::fs::write(folder.join("half"), "")?;
            anyhow::bail!("killed")
        });
        assert!(fails.is_err());
        part.make(|folder| {
            assert!(!folder.join("half").exists(), "what the killed build left is still there");
            Ok(())
        })
        .unwrap();
        part.make(|_| anyhow::bail!("made twice")).unwrap();
    }
}
