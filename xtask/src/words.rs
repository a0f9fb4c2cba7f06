//! Words that this project does not use any more, in names, texts, comments and documents.
//!
//! Older code still has many. `words.toml` says how many each file may have: that number only goes down.

mod allowed;
mod scan;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::layout;
use allowed::{Allowed, compare};
use scan::{Hit, Language};

/// The table of what is still allowed.
const TABLE: &str = "xtask/words.toml";

/// The files that have to name these words.
const EXEMPT: [&str; 3] = [TABLE, "xtask/src/words/scan.rs", "xtask/src/words/scan/tests.rs"];

/// How many problems are printed; a file that is new may have hundreds.
const SHOWN: usize = 50;

/// Checks all files of the tree against the table.
pub(crate) fn check() -> Result<()> {
    eprintln!("» words ({TABLE})");
    let root = layout::root();
    let problems = compare(&Allowed::read(&root.join(TABLE))?, &hits(&root)?);
    if problems.is_empty() {
        return Ok(());
    }
    for problem in problems.iter().take(SHOWN) {
        eprintln!("  {problem}");
    }
    if problems.len() > SHOWN {
        eprintln!("  and {} more", problems.len() - SHOWN);
    }
    bail!("words: {} problems", problems.len())
}

/// Lowers the numbers of the table to what is there; refuses to raise one.
pub(crate) fn update() -> Result<()> {
    let root = layout::root();
    let table = root.join(TABLE);
    let lowered = Allowed::read(&table)?.lowered(&hits(&root)?);
    std::fs::write(&table, lowered.to_string())
        .with_context(|| format!("cannot write {}", table.display()))?;
    check()
}

/// The hits of each file that has any, by its path.
fn hits(root: &Path) -> Result<BTreeMap<String, Vec<Hit>>> {
    let mut hits = BTreeMap::new();
    for path in files(root)? {
        let Some(language) = Language::of(&path).filter(|_| !EXEMPT.contains(&path.as_str())) else {
            continue;
        };
        // Deleted, and the index does not know it yet.
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let found = scan::hits(language, &text);
        if !found.is_empty() {
            hits.insert(path, found);
        }
    }
    Ok(hits)
}

/// The files that are, or would be, in the repository.
fn files(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = git.stdin(Stdio::null()).output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}
