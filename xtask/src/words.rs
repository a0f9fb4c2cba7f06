//! The check for retired words in names, texts, comments and documents.
//!
//! Comments of `.proto` files, which `/docs` shows, are also checked for sentences that begin like a question.
//!
//! `words.toml` has the number of retired words that each file may still have, which must not rise.

mod allowed;
mod proto_comments;
mod scan;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::layout;
use allowed::{Allowed, compare};
use scan::{Hit, Language};

/// The table of the numbers that are still allowed.
const TABLE: &str = "xtask/words.toml";

/// The files that have to contain these words.
const EXEMPT: [&str; 3] = [TABLE, "xtask/src/words/scan.rs", "xtask/src/words/scan/tests.rs"];

/// The folder of the `.proto` files of other projects.
const FOREIGN_PROTO: &str = "/google/";

/// The largest number of printed problems; a new file may have hundreds.
const SHOWN: usize = 50;

/// Checks all files of the tree against the table.
pub(crate) fn check() -> Result<()> {
    eprintln!("» words ({TABLE})");
    let root = layout::root();
    let mut problems = compare(&Allowed::read(&root.join(TABLE))?, &hits(&root)?);
    problems.extend(sentences_without_verb(&root)?);
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

/// Lowers the numbers of the table to the present ones; an error if a number would have to rise.
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
        // A deleted file may still be in the index.
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let found = scan::hits(language, &text);
        if !found.is_empty() {
            hits.insert(path, found);
        }
    }
    Ok(hits)
}

/// The sentences of `.proto` comments that begin like a question and are none, one line each.
fn sentences_without_verb(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in files(root)? {
        let is_proto = Path::new(&path).extension().is_some_and(|extension| extension == "proto");
        if !is_proto || path.contains(FOREIGN_PROTO) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let name =
            |(line, sentence)| format!("{path}:{line}: \"{sentence}\": write a noun phrase or a sentence");
        problems.extend(proto_comments::pseudo_questions(&text).into_iter().map(name));
    }
    Ok(problems)
}

/// The files of the repository, including untracked files that are not ignored.
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
