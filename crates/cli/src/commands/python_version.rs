//! A check that the Python of a command has the same minor version as the Python of the cluster that the command uses.
//! If the versions differ, one may be unable to read what the other has pickled.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::program::{ClientEnvironment, Program};
use crate::output::message;

/// Time within which an interpreter has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

const QUESTION: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3])";

/// Warns if the command runs in a Python that is not the cluster's own and has another minor version.
pub(super) async fn warn(
    cluster: &str,
    cluster_version: &str,
    program: &Program,
    environment: &ClientEnvironment,
) {
    let Some(theirs) = minor(cluster_version) else { return };
    let Some(python) = program.interpreter(environment).filter(|python| !is_own(python, environment)) else {
        return;
    };
    let Some(here) = of(&python).await.as_deref().and_then(minor) else { return };
    if here == theirs {
        return;
    }
    message!("warning: python {here} here, {theirs} on cluster '{cluster}': pickled functions may fail");
    if environment.python.is_some() {
        message!("hint: `muster exec {cluster} -- python …` runs the cluster's own");
    } else {
        message!("hint: use Python {theirs} here, or an image with Python {here}");
    }
}

/// Returns the major and minor part of a version; `None` if it has no minor part.
fn minor(version: &str) -> Option<String> {
    let mut parts = version.split('.');
    Some(format!("{}.{}", parts.next()?, parts.next()?))
}

/// Returns true if an interpreter is the cluster's, even if the two paths reach it through different links.
fn is_own(python: &Path, environment: &ClientEnvironment) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    environment.python.as_deref().is_some_and(|own| own == python || real(own) == real(python))
}

/// Returns the version of an interpreter, such as 3.12.4; `None` if it does not answer.
pub(super) async fn of(python: &Path) -> Option<String> {
    let mut command = Command::new(python);
    command.args(["-I", "-c", QUESTION]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output()).await.ok()?.ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| answer.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("3.12.4", Some("3.12"))]
    #[case("3.9", Some("3.9"))]
    #[case("3", None)]
    #[case("", None)]
    fn versions_are_compared_by_their_minor_part(#[case] version: &str, #[case] expected: Option<&str>) {
        assert_eq!(minor(version).as_deref(), expected);
    }

    #[test]
    fn the_clusters_own_interpreter_is_known_by_any_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let [own, link, other] = ["own", "link", "other"].map(|name| folder.path().join(name));
        std::fs::write(&own, "").expect("a file");
        std::fs::write(&other, "").expect("a file");
        std::os::unix::fs::symlink(&own, &link).expect("a link");
        let environment = ClientEnvironment { python: Some(own.clone()), ..ClientEnvironment::default() };
        assert!(is_own(&own, &environment) && is_own(&link, &environment) && !is_own(&other, &environment));
        assert!(!is_own(&own, &ClientEnvironment::default()));
    }
}
