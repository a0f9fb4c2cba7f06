//! The suites: checks of style, one suite per test program, and the doc tests.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::layout;

/// A suite, which is run and timed.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) kind: SuiteKind,
    pub(super) needs_testbed: bool,
}

/// The kind of a suite.
#[derive(Debug)]
pub(super) enum SuiteKind {
    Fmt,
    Words,
    Clippy,
    Deny,
    Docs,
    /// A test program of a package, selected like cargo's targets (`lib`, `test name`, `bin name`) and run in the
    /// package's folder.
    Target {
        package: String,
        selector: Vec<String>,
        folder: PathBuf,
    },
    DocTests,
}

impl Suite {
    pub(super) fn check(name: &str, kind: SuiteKind) -> Self {
        Self { name: name.to_owned(), kind, needs_testbed: false }
    }

    /// Returns true if `name` is the name of the suite, or the crate before `::`.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.name.split_once("::").is_some_and(|(package, _)| package == name)
    }

    pub(super) fn has_tests(&self) -> bool {
        matches!(self.kind, SuiteKind::Target { .. } | SuiteKind::DocTests)
    }
}

#[derive(Debug, Deserialize)]
struct WorkspaceMetadata {
    packages: Vec<WorkspacePackage>,
}

#[derive(Debug, Deserialize)]
struct WorkspacePackage {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<PackageTarget>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct PackageTarget {
    name: String,
    kind: Vec<String>,
    test: bool,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
}

/// The package that uses the testbed; crates that depend on it may need the testbed.
const TESTKIT: &str = "muster-testkit";

/// All suites, cheap ones first.
pub(super) fn all() -> Result<Vec<Suite>> {
    let output =
        layout::cargo()?.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]).output()?;
    let metadata: WorkspaceMetadata = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)))?;
    let mut suites = vec![
        Suite::check("fmt", SuiteKind::Fmt),
        Suite::check("words", SuiteKind::Words),
        Suite::check("clippy", SuiteKind::Clippy),
        Suite::check("docs", SuiteKind::Docs),
        Suite::check("deny", SuiteKind::Deny),
    ];
    suites.extend(metadata.packages.iter().flat_map(of_package));
    suites.push(Suite::check("doc-tests", SuiteKind::DocTests));
    Ok(suites)
}

fn of_package(package: &WorkspacePackage) -> Vec<Suite> {
    let needs_testbed =
        package.name == TESTKIT || package.dependencies.iter().any(|dependency| dependency.name == TESTKIT);
    let short = package.name.strip_prefix("muster-").unwrap_or(&package.name);
    let folder = package.manifest_path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let suite = |name: String, selector: Vec<String>| Suite {
        name,
        kind: SuiteKind::Target { package: package.name.clone(), selector, folder: folder.clone() },
        needs_testbed,
    };
    let is = |target: &PackageTarget, kind: &str| target.test && target.kind.iter().any(|has| has == kind);
    let mut suites = Vec::new();
    for target in &package.targets {
        let name = target.name.clone();
        if is(target, "lib") {
            suites.push(suite(format!("{short}::lib"), vec!["lib".to_owned()]));
        } else if is(target, "test") {
            suites.push(suite(format!("{short}::{name}"), vec!["test".to_owned(), name]));
        } else if is(target, "bin") {
            suites.push(suite(format!("{short}::bin/{name}"), vec!["bin".to_owned(), name]));
        }
    }
    suites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_chosen_by_its_name_or_its_crate() {
        let suite = Suite::check("testkit::kubernetes", SuiteKind::Fmt);
        assert!(suite.is_named("testkit::kubernetes"));
        assert!(suite.is_named("testkit"));
        assert!(!suite.is_named("test"));
    }
}
