//! Packages that users added to an installed framework. Recorded beside the environments, so that the next one gets
//! them too.

use std::path::PathBuf;

use muster_frameworks::LocalFramework;

use super::{Environment, Environments};

/// Characters that end the name of a package in a requirement of pip.
const NAME_END: [char; 9] = ['<', '>', '=', '!', '~', '[', ';', '@', ' '];

/// Refuses arguments that pip would not treat as a package, such as options.
pub(super) fn check_packages(packages: &[String]) -> Result<(), String> {
    let is_wrong = |package: &&String| {
        normalized_name(package).is_empty()
            || package.starts_with('-')
            || package.chars().any(char::is_control)
    };
    match packages.iter().find(is_wrong) {
        Some(wrong) => Err(format!(
            "{wrong:?} is not a package: must be a name with an optional version, such as pandas or \"pandas>=2\""
        )),
        None => Ok(()),
    }
}

/// Returns the normalized name of a package, as pip compares names.
fn normalized_name(package: &str) -> String {
    let name = package.split(NAME_END).next().unwrap_or_default();
    name.trim().to_lowercase().replace(['_', '.'], "-")
}

/// Merges packages; an added one replaces one of the same name.
pub(super) fn merge(mut packages: Vec<String>, added: Vec<String>) -> Vec<String> {
    for package in added {
        packages.retain(|known| normalized_name(known) != normalized_name(&package));
        packages.push(package);
    }
    packages
}

/// Returns the message for packages that cannot be added, since Muster did not install the environment.
pub(super) fn not_installed_by_muster(
    framework: &dyn LocalFramework,
    found: &Environment,
    packages: &[String],
) -> String {
    let (python, source) = (found.python.display(), found.source.as_str());
    format!(
        "{} is installed in {python} ({source}), but not by Muster: add packages with `{python} -m pip install {}`",
        framework.framework(),
        packages.join(" ")
    )
}

impl Environments {
    /// Returns the file with the packages that were added to a framework, one per line.
    fn record_file(&self, framework: &dyn LocalFramework) -> PathBuf {
        self.inner.folder.join(format!("{}.packages", framework.framework()))
    }

    /// Reads the packages that were added to a framework.
    pub(super) fn added_packages(&self, framework: &dyn LocalFramework) -> Vec<String> {
        let text = std::fs::read_to_string(self.record_file(framework)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Records the packages of a framework.
    pub(super) fn record_packages(
        &self,
        framework: &dyn LocalFramework,
        packages: &[String],
    ) -> Result<(), String> {
        let file = self.record_file(framework);
        let written = if packages.is_empty() {
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            let draft = file.with_extension("new");
            let text: String = packages.iter().flat_map(|package| [package.as_str(), "\n"]).collect();
            std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &file))
        };
        written.map_err(|error| format!("cannot record the packages in {}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(packages: &[&str]) -> Vec<String> {
        packages.iter().map(|package| (*package).to_owned()).collect()
    }

    #[test]
    fn a_package_that_is_given_again_replaces_the_one_before() {
        let all = merge(owned(&["pandas", "Scikit_Learn==1.5"]), owned(&["pandas>=2", "scikit-learn"]));
        assert_eq!(all, ["pandas>=2", "scikit-learn"]);
        assert_eq!(merge(all, owned(&["numpy"])), ["pandas>=2", "scikit-learn", "numpy"]);
    }

    #[test]
    fn options_of_pip_are_refused() {
        for wrong in ["--index-url=http://x", "", " ", "a\nb", ">=2"] {
            assert!(check_packages(&owned(&["six", wrong])).is_err(), "{wrong:?}");
        }
        assert_eq!(
            check_packages(&owned(&["six", "pandas[all]>=2", "x @ https://example.test/x.whl"])),
            Ok(())
        );
    }
}
