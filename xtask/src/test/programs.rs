//! The test programs, built all at once when the first of them is asked for.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::layout;

/// What cargo said when it built the tests, once it has.
#[derive(Default)]
pub(super) struct Programs {
    messages: OnceCell<String>,
}

impl Programs {
    /// The program for a target of a package, such as `["test", "version"]` or `["lib"]`.
    pub(super) fn find(&self, package: &str, selector: &[String]) -> Result<PathBuf> {
        let messages = match self.messages.get() {
            Some(messages) => messages,
            None => {
                let built = build()?;
                self.messages.get_or_init(|| built)
            }
        };
        find_executable(messages, package, selector)
            .with_context(|| format!("cargo built no test program for {package} {}", selector.join(" ")))
    }
}

fn build() -> Result<String> {
    eprintln!("» building all tests");
    let mut cargo = layout::cargo()?;
    cargo.args([
        "test",
        "--no-run",
        "--locked",
        "--workspace",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests do not compile");
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<BuiltTarget>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct BuiltTarget {
    name: String,
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// The program that cargo built for a selector such as `["test", "version"]`.
fn find_executable(messages: &str, package: &str, selector: &[String]) -> Option<PathBuf> {
    let (kind, name) = (selector.first()?, selector.get(1));
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| {
            message.reason == "compiler-artifact" && message.profile.as_ref().is_some_and(|p| p.test)
        })
        .find(|message| {
            let of_package = message.package_id.as_ref().is_some_and(|id| is_of(id, package));
            of_package
                && message.target.as_ref().is_some_and(|target| {
                    target.kind.contains(kind) && name.is_none_or(|name| &target.name == name)
                })
        })?
        .executable
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

    #[rstest]
    #[case("path+file:///t/crates/cli#muster-cli@0.1.0", "muster-cli", true)]
    #[case("path+file:///t/xtask#0.1.0", "xtask", true)]
    #[case("path+file:///t/crates/core#muster-core@0.1.0", "muster-cli", false)]
    fn a_package_id_names_its_package(#[case] id: &str, #[case] package: &str, #[case] expected: bool) {
        assert_eq!(is_of(id, package), expected);
    }
}
