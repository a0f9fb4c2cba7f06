//! The test programs, which one cargo command builds.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::layout;

/// The artifacts that cargo built.
pub(super) struct Programs {
    built: Vec<BuiltArtifact>,
}

/// Cargo's message about an artifact; other messages have other fields.
#[derive(Debug, Deserialize)]
struct BuiltArtifact {
    package_id: String,
    target: ArtifactTarget,
    profile: ArtifactProfile,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct ArtifactTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ArtifactProfile {
    test: bool,
}

impl Programs {
    /// Builds the tests of all packages, and the programs that they start.
    pub(super) fn build() -> Result<Self> {
        eprintln!("\n── build ──\n» building all tests");
        let mut cargo = layout::cargo()?;
        cargo.args(["test", "--no-run", "--locked", "--workspace"]);
        cargo.args(["--message-format", "json-render-diagnostics"]);
        let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("the tests do not compile");
        }
        Ok(Self::read(&String::from_utf8_lossy(&output.stdout)))
    }

    fn read(messages: &str) -> Self {
        Self { built: messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect() }
    }

    /// The program with the tests of a package's target, such as `["test", "version"]` or `["lib"]`.
    pub(super) fn find(&self, package: &str, selector: &[String]) -> Result<PathBuf> {
        let program = match selector {
            [kind] => self.executable(package, kind, None, true),
            [kind, name, ..] => self.executable(package, kind, Some(name), true),
            [] => None,
        };
        program.with_context(|| format!("cargo built no test program for {package} {}", selector.join(" ")))
    }

    /// The program that runs the testbed.
    pub(super) fn runner(&self) -> Option<PathBuf> {
        self.executable("muster-testkit", "bin", Some("testbed"), false)
    }

    fn executable(&self, package: &str, kind: &str, name: Option<&str>, test: bool) -> Option<PathBuf> {
        let fits = |built: &&BuiltArtifact| {
            let BuiltArtifact { package_id, target, profile, executable } = built;
            executable.is_some()
                && profile.test == test
                && is_of(package_id, package)
                && target.kind.iter().any(|has| has == kind)
                && name.is_none_or(|name| target.name == name)
        };
        self.built.iter().find(fits)?.executable.clone()
    }
}

/// Package ids look like `path+file:///tree/crates/cli#muster-cli@0.1.0`, or `…/xtask#0.1.0` where folder and name agree.
fn is_of(id: &str, package: &str) -> bool {
    let Some((path, fragment)) = id.rsplit_once('#') else { return false };
    match fragment.split_once('@') {
        Some((name, _)) => name == package,
        None => path.rsplit('/').next() == Some(package),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MESSAGES: &str = r#"
{"reason":"compiler-artifact","package_id":"path+file:///t/crates/testkit#muster-testkit@0.1.0","target":{"name":"testbed","kind":["bin"]},"profile":{"test":true},"executable":"/t/testbed-tests"}
{"reason":"compiler-artifact","package_id":"path+file:///t/crates/testkit#muster-testkit@0.1.0","target":{"name":"testbed","kind":["bin"]},"profile":{"test":false},"executable":"/t/testbed"}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn a_programs_tests_are_not_taken_for_the_program() {
        let programs = Programs::read(MESSAGES);
        assert_eq!(programs.runner(), Some("/t/testbed".into()));
        let tests = programs.find("muster-testkit", &["bin".into(), "testbed".into()]).unwrap();
        assert_eq!(tests, PathBuf::from("/t/testbed-tests"));
        assert!(programs.find("muster-testkit", &["lib".into()]).is_err());
    }

    #[rstest]
    #[case("path+file:///t/crates/cli#muster-cli@0.1.0", "muster-cli", true)]
    #[case("path+file:///t/xtask#0.1.0", "xtask", true)]
    #[case("path+file:///t/crates/core#muster-core@0.1.0", "muster-cli", false)]
    fn a_package_id_names_its_package(#[case] id: &str, #[case] package: &str, #[case] expected: bool) {
        assert_eq!(is_of(id, package), expected);
    }
}
