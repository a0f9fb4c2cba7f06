//! The table of the numbers of retired words that files may still have. Pure, except for reading the table.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::scan::Hit;

/// The table: the numbers of hits by path.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowed {
    allowed: BTreeMap<String, usize>,
}

impl Allowed {
    /// Reads the table.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not what it should be", file.display()))
    }

    /// The table with each number lowered to that of the hits; no number is raised or added.
    pub(super) fn lowered(self, hits: &BTreeMap<String, Vec<Hit>>) -> Self {
        let lower = |(path, allowed): (String, usize)| {
            let there = hits.get(&path).map_or(0, Vec::len).min(allowed);
            (there > 0).then_some((path, there))
        };
        Self { allowed: self.allowed.into_iter().filter_map(lower).collect() }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# How many retired words (xtask/src/words/scan.rs) each file still has. No number may rise, and a"
        )?;
        writeln!(
            f,
            "# file that is not here has none. After removing some: cargo xtask lint --update-words"
        )?;
        writeln!(f, "\n[allowed]")?;
        for (path, number) in &self.allowed {
            writeln!(f, "{path:?} = {number}")?;
        }
        Ok(())
    }
}

/// All differences between the table and the hits, one line each; empty if they agree.
pub(super) fn compare(allowed: &Allowed, hits: &BTreeMap<String, Vec<Hit>>) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, found) in hits {
        let number = allowed.allowed.get(path).copied().unwrap_or(0);
        if found.len() > number {
            let name = |hit: &Hit| format!("{path}:{}: \"{}\": write {}", hit.line, hit.found, hit.instead);
            problems.extend(found.iter().map(name));
            problems.push(format!("{path}: {} retired words, {number} allowed", found.len()));
        }
    }
    for (path, number) in &allowed.allowed {
        let there = hits.get(path).map_or(0, Vec::len);
        if there < *number {
            problems.push(format!(
                "{path}: {there} retired words, {number} allowed: lower the number: cargo xtask lint --update-words"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
