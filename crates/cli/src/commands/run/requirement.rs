//! The Python versions that a script needs: version specifiers, as Python packages write them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::commands::python_version;
use crate::failure::{Exit, Failure};

/// A version of a Python package or of Python itself.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        r"(?i)^v?(?:(?<epoch>[0-9]+)!)?(?<release>[0-9]+(?:\.[0-9]+)*)",
        r"(?<pre>[-_.]?(?:alpha|beta|preview|pre|a|b|c|rc)[-_.]?[0-9]*)?",
        r"(?<post>-[0-9]+|[-_.]?(?:post|rev|r)[-_.]?[0-9]*)?",
        r"(?<dev>[-_.]?dev[-_.]?[0-9]*)?(?<local>\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?$",
    ];
    Regex::new(&parts.concat()).expect("the expression is valid")
});

/// Where a version is relative to the release of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// A version for development or a preview.
    Before,
    /// The release itself.
    Release,
    /// A version after the release.
    After,
}

/// A version. Previews of one release are not ordered: it is compared with releases only.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PythonVersion {
    epoch: u64,
    release: Vec<u64>,
    phase: Phase,
    is_local: bool,
}

impl PythonVersion {
    fn parse(text: &str) -> Option<Self> {
        let parts = VERSION.captures(text)?;
        let epoch = parts.name("epoch").map_or(Some(0), |epoch| epoch.as_str().parse().ok())?;
        let release = parts["release"].split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let phase = match ["pre", "post", "dev"].map(|name| parts.name(name).is_some()) {
            [true, ..] | [_, false, true] => Phase::Before,
            [false, true, _] => Phase::After,
            [false, false, false] => Phase::Release,
        };
        Some(Self { epoch, release, phase, is_local: parts.name("local").is_some() })
    }

    /// Returns what versions are ordered by: 3.10 and 3.10.0 are the same.
    fn key(&self) -> (u64, &[u64], Phase) {
        let length = self.release.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
        (self.epoch, &self.release[..length], self.phase)
    }

    fn begins_with(&self, epoch: u64, numbers: &[u64]) -> bool {
        let own = self.release.iter().copied().chain(std::iter::repeat(0));
        self.epoch == epoch && own.zip(numbers).all(|(own, number)| own == *number)
    }
}

/// One condition on a version.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Clause {
    Compatible(PythonVersion),
    Equal(PythonVersion),
    NotEqual(PythonVersion),
    /// `== N.*`
    Prefix(PythonVersion),
    /// `!= N.*`
    NotPrefix(PythonVersion),
    AtMost(PythonVersion),
    AtLeast(PythonVersion),
    Below(PythonVersion),
    Above(PythonVersion),
    /// The same text.
    Same(String),
}

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        let (operator, rest) = ["===", "~=", "==", "!=", "<=", ">=", "<", ">"]
            .iter()
            .find_map(|operator| Some((*operator, text.strip_prefix(operator)?.trim())))?;
        if operator == "===" {
            return (!rest.is_empty()).then(|| Self::Same(rest.to_owned()));
        }
        if let Some(numbers) = rest.strip_suffix(".*") {
            let prefix = PythonVersion::parse(numbers)
                .filter(|version| version.phase == Phase::Release && !version.is_local)?;
            return match operator {
                "==" => Some(Self::Prefix(prefix)),
                "!=" => Some(Self::NotPrefix(prefix)),
                _ => None,
            };
        }
        let version = PythonVersion::parse(rest)?;
        match operator {
            "==" => return Some(Self::Equal(version)),
            "!=" => return Some(Self::NotEqual(version)),
            // Local versions have no order.
            _ if version.is_local => return None,
            _ => {}
        }
        match operator {
            "~=" => (version.release.len() > 1).then_some(Self::Compatible(version)),
            "<=" => Some(Self::AtMost(version)),
            ">=" => Some(Self::AtLeast(version)),
            "<" => Some(Self::Below(version)),
            _ => Some(Self::Above(version)),
        }
    }

    /// Returns true for a release that meets the condition.
    fn is_met(&self, by: &PythonVersion, text: &str) -> bool {
        let is_equal = |version: &PythonVersion| !version.is_local && by.key() == version.key();
        match self {
            Self::Compatible(version) => {
                let series = &version.release[..version.release.len() - 1];
                by.key() >= version.key() && by.begins_with(version.epoch, series)
            }
            Self::Equal(version) => is_equal(version),
            Self::NotEqual(version) => !is_equal(version),
            Self::Prefix(prefix) => by.begins_with(prefix.epoch, &prefix.release),
            Self::NotPrefix(prefix) => !by.begins_with(prefix.epoch, &prefix.release),
            Self::AtMost(version) => by.key() <= version.key(),
            Self::AtLeast(version) => by.key() >= version.key(),
            Self::Below(version) => by.key() < version.key(),
            Self::Above(version) => by.key() > version.key(),
            Self::Same(same) => same.eq_ignore_ascii_case(text),
        }
    }
}

/// The versions of Python that a script needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonRequirement {
    script: PathBuf,
    text: String,
    clauses: Vec<Clause>,
}

impl PythonRequirement {
    pub(super) fn parse(script: &Path, text: &str) -> Result<Self, Failure> {
        let given = text.split(',').map(str::trim).filter(|clause| !clause.is_empty());
        let clauses = given.map(Clause::parse).collect::<Option<Vec<Clause>>>();
        let Some(clauses) = clauses else {
            let what = format!(
                "{}: requires-python is '{text}': must be versions with ~=, ==, !=, <=, >=, < or >, such as >=3.10",
                script.display()
            );
            return Err(Failure::new(Exit::Usage, what));
        };
        Ok(Self { script: script.to_owned(), text: text.to_owned(), clauses })
    }

    fn is_met(&self, version: &str) -> bool {
        // A version that cannot be understood is not refused: the script may run in it.
        PythonVersion::parse(version)
            .is_none_or(|parsed| self.clauses.iter().all(|clause| clause.is_met(&parsed, version)))
    }

    /// Refuses an interpreter that the script cannot run in. One that does not answer is not refused.
    pub(super) async fn check(&self, python: &Path) -> Result<(), Failure> {
        match python_version::of(python).await {
            Some(version) if !self.is_met(&version) => {
                let (script, text, python) = (self.script.display(), &self.text, python.display());
                let what = format!("{script} requires Python {text}, but {python} is Python {version}");
                Err(Failure::new(Exit::Usage, what).hint("choose another Python, such as with --python"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rstest::rstest;

    use super::*;

    fn parse(text: &str) -> Result<PythonRequirement, Failure> {
        PythonRequirement::parse(Path::new("job.py"), text)
    }

    #[rstest]
    #[case("", &["2.7.18", "3.12.4"], &[])]
    #[case(">=3.10", &["3.10.0", "3.10", "3.12.4", "4.0.0"], &["3.9.18", "2.7.18"])]
    #[case(">= 3.9, < 3.13", &["3.9.0", "3.12.9"], &["3.13.0", "3.8.1"])]
    #[case("~=3.11", &["3.11.0", "3.12.4"], &["3.10.9", "4.0.0"])]
    #[case("~=3.11.2", &["3.11.2", "3.11.9"], &["3.11.1", "3.12.0"])]
    #[case("==3.11", &["3.11.0"], &["3.11.4"])]
    #[case("==3.11.*", &["3.11.0", "3.11.4"], &["3.1.1", "3.12.0"])]
    #[case("==3.*", &["3.0.0", "3.12.4"], &["2.7.18"])]
    #[case("!=3.11.*,>=3.10", &["3.10.1", "3.12.0"], &["3.11.4"])]
    #[case("!=3.11.4", &["3.11.5"], &["3.11.4"])]
    #[case("<=3.12", &["3.12.0", "3.11.9"], &["3.12.1"])]
    #[case(">3.11", &["3.11.1", "3.12.0"], &["3.11.0"])]
    #[case("<4", &["3.12.4"], &["4.0.0"])]
    #[case(">=3.14.0rc1", &["3.14.0"], &["3.13.9"])]
    #[case("<3.14.0rc1", &["3.13.9"], &["3.14.0"])]
    #[case(">3.14.0.post1", &["3.14.1"], &["3.14.0"])]
    #[case("===3.11.4", &["3.11.4"], &["3.11.5"])]
    #[case("==1!3.11", &[], &["3.11.0"])]
    #[case("==3.11.4+local", &[], &["3.11.4"])]
    fn releases_meet_a_requirement_or_not(
        #[case] requirement: &str,
        #[case] met: &[&str],
        #[case] unmet: &[&str],
    ) {
        let requirement = parse(requirement).unwrap();
        for version in met {
            assert!(requirement.is_met(version), "{requirement:?} {version}");
        }
        for version in unmet {
            assert!(!requirement.is_met(version), "{requirement:?} {version}");
        }
    }

    #[rstest]
    #[case("3.11")]
    #[case("=3.11")]
    #[case("=>3.11")]
    #[case(">=3.x")]
    #[case(">=3.11 <3.13")]
    #[case("~=3")]
    #[case(">=3.*")]
    #[case("==3.11rc1.*")]
    #[case(">=3.11+local")]
    #[case("^3.11")]
    #[case("===")]
    #[case(">=99999999999999999999")]
    fn what_is_no_requirement_is_refused(#[case] text: &str) {
        let refused = parse(text).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(
            refused.what.starts_with(&format!("job.py: requires-python is '{text}': must be")),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn an_interpreter_is_asked_for_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let answers = |name: &str, script: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            file
        };
        let (old, broken) = (answers("old", "echo 3.9.1"), answers("broken", "exit 1"));
        let requirement = parse(">=3.10").unwrap();
        let refused = requirement.check(&old).await.unwrap_err();
        let expected = format!("job.py requires Python >=3.10, but {} is Python 3.9.1", old.display());
        assert_eq!((refused.exit, refused.what), (Exit::Usage, expected));
        assert_eq!(requirement.check(&broken).await, Ok(()), "it may be another program");
        assert_eq!(parse(">=3.9").unwrap().check(&old).await, Ok(()));
    }
}
