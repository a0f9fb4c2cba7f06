//! Packages for a cluster's nodes. Their environment is built once and found again by a hash of the packages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use muster_core::image_template::ImageState;
use muster_proto::v1alpha2::{CreateImageTemplateRequest, ImageTemplate};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::image;
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::Spinner;

/// Interval at which a build is polled while the command waits for it.
const PERIOD: Duration = Duration::from_millis(500);

/// Flags for packages.
#[derive(Debug, Clone, Default, Parser)]
pub(crate) struct PackageFlags {
    /// A package that pip installs for the nodes, such as "pandas>=2"; may be repeated
    #[arg(long, value_name = "PACKAGE", conflicts_with_all = ["image", "image_template"])]
    pip: Vec<String>,
    /// File with such packages, one per line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "image_template"])]
    requirements: Option<PathBuf>,
}

impl PackageFlags {
    /// Returns the first given flag; profiles without a framework allow none of them.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let flags = [("--pip", !self.pip.is_empty()), ("--requirements", self.requirements.is_some())];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// Adds packages.
    pub(super) fn add(&mut self, packages: Vec<String>) {
        self.pip.extend(packages);
    }

    /// Returns all packages, those of the file first.
    pub(super) fn all(&self) -> Result<Vec<String>, Failure> {
        let mut packages =
            self.requirements.as_deref().map(read_requirements).transpose()?.unwrap_or_default();
        packages.extend(self.pip.iter().cloned());
        Ok(packages)
    }
}

/// Reads the packages of a file.
fn read_requirements(file: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("--requirements {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let mut packages = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split_once(" #").map_or(line, |(before, _)| before).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('-') || line.ends_with('\\') {
            let why = format!("line {}: '{line}' is not supported: write one package per line", number + 1);
            return Err(wrong(why));
        }
        packages.push(line.to_owned());
    }
    Ok(packages)
}

/// An environment with packages on the machine of the server.
pub(super) struct Built {
    /// The name of its image template.
    pub(super) template: String,
    pub(super) python: PathBuf,
}

/// Returns the name of the image with exactly these packages.
fn image_name(packages: &[String]) -> String {
    let hash = format!("{:x}", Sha256::digest(packages.join("\n")));
    format!("packages-{hash:.12}")
}

/// Finds or builds the environment with these packages.
pub(super) async fn build(
    client: &mut Client,
    namespace: &str,
    packages: Vec<String>,
) -> Result<Built, Failure> {
    let name = image_name(&packages);
    let spinner = Spinner::new(String::new());
    spinner.print_line(&format!("Preparing an environment with {}", packages.join(", ")));
    let template = ImageTemplate {
        name: name.clone(),
        namespace: namespace.to_owned(),
        pip_packages: packages,
        provider: "local".to_owned(),
        ..ImageTemplate::default()
    };
    let request =
        CreateImageTemplateRequest { image_template: Some(template), namespace: namespace.to_owned() };
    let created =
        client.ask(async |client| client.images().create_image_template(request.clone()).await).await;
    match created {
        Err(failure) if !failure.is_taken => return Err(failure),
        _ => {}
    }
    let mut shown = String::new();
    loop {
        let found = image::get(client, namespace, &name).await?;
        match found.state.as_str() {
            state if state == ImageState::Ready.as_str() => {
                return Ok(Built { template: name, python: found.image.into() });
            }
            state if state == ImageState::Failed.as_str() => {
                let what = format!("cannot build the environment: {}", found.status_reason);
                let hint = format!(
                    "`muster image logs {name} -n {namespace}` prints its log; delete it with `muster image delete` to build it again"
                );
                return Err(Failure::new(Exit::Failed, what).hint(hint));
            }
            state => {
                if shown != state {
                    state.clone_into(&mut shown);
                    spinner.show(format!("{name}: {}", state.to_lowercase()));
                }
                sleep(PERIOD).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_come_from_files_and_flags() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("requirements.txt");
        std::fs::write(&file, "# mine\n\npandas>=2  # tables\n numpy\nurl @ https://example.test/a#b\n")
            .unwrap();
        let flags = PackageFlags { pip: vec!["six".to_owned()], requirements: Some(file.clone()) };
        let all = flags.all().unwrap();
        assert_eq!(all, ["pandas>=2", "numpy", "url @ https://example.test/a#b", "six"]);
        std::fs::write(&file, "six\n-r other.txt\n").unwrap();
        let refused = flags.all().unwrap_err().what;
        assert!(refused.contains("line 2: '-r other.txt' is not supported"), "{refused}");
    }

    #[test]
    fn the_same_packages_are_found_again() {
        let packages = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let name = image_name(&packages(&["six==1.16.0"]));
        assert_eq!(name.len(), "packages-".len() + 12);
        assert_eq!(name, image_name(&packages(&["six==1.16.0"])));
        assert_ne!(name, image_name(&packages(&["six==1.17.0"])));
    }
}
