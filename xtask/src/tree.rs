//! The separation of trees that share the cache. Cargo treats their crates as the same, so that it would use a crate
//! with the paths of another tree as up to date.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::{layout, step};

/// The file in the target folder that names the tree it was last used for.
const TREE: &str = "tree";

/// Makes cargo recompile the workspace if the target folder was last used for another tree; external libraries are
/// kept.
pub(crate) fn claim() -> Result<()> {
    claim_for(&layout::target()?, &layout::root(), || {
        step::run(
            "removing what was compiled for another tree",
            layout::cargo()?.args(["clean", "--workspace"]),
        )
    })
}

fn claim_for(target: &Path, tree: &Path, clean: impl FnOnce() -> Result<()>) -> Result<()> {
    let file = target.join(TREE);
    let tree = tree.canonicalize().unwrap_or_else(|_| tree.to_owned());
    let name = tree.as_os_str().as_encoded_bytes();
    if std::fs::read(&file).is_ok_and(|last| last == name) {
        return Ok(());
    }
    if target.exists() {
        clean()?;
    }
    std::fs::create_dir_all(target)?;
    std::fs::write(&file, name).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_tree_compiled_is_removed_once() {
        let cache = tempfile::tempdir().unwrap();
        let target = cache.path().join("target");
        let mut cleaned = 0;
        let mut claim = |tree: &str| {
            claim_for(&target, Path::new(tree), || {
                cleaned += 1;
                Ok(())
            })
            .unwrap();
            cleaned
        };
        assert_eq!(claim("/no/tree/a"), 0, "nothing was compiled yet");
        assert_eq!(claim("/no/tree/a"), 0);
        assert_eq!(claim("/no/tree/b"), 1);
        assert_eq!(claim("/no/tree/b"), 1);
        assert_eq!(claim("/no/tree/a"), 2);
    }

    #[test]
    fn a_target_folder_that_could_not_be_cleaned_is_not_claimed() {
        let cache = tempfile::tempdir().unwrap();
        assert!(claim_for(cache.path(), Path::new("/no/tree"), || anyhow::bail!("locked")).is_err());
        assert!(!cache.path().join(TREE).exists());
    }
}
