//! Packages for a cluster's nodes. Their environment is built once and found again by a hash of the packages.

mod requirements;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use muster_core::image_template::{ImageSpec, ImageState, InvalidImageTemplate};
use muster_proto::v1alpha2::{CreateImageTemplateRequest, DeleteImageTemplateRequest, ImageTemplate};
use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use super::image;
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::Spinner;
use crate::wait::Deadline;

/// Interval at which a build is polled while the command waits for it.
const PERIOD: Duration = Duration::from_millis(500);

/// Flags for packages.
#[derive(Debug, Clone, Default, Parser)]
pub(crate) struct PackageFlags {
    /// A package that pip installs for the nodes, such as "pandas>=2"; may be repeated
    #[arg(long, value_name = "PACKAGE", value_parser = parse_package, conflicts_with = "image_template")]
    pip: Vec<String>,
    /// File with such packages, one per line, or a lock file of pip-compile, uv or poetry
    #[arg(long, value_name = "FILE", conflicts_with = "image_template")]
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
            self.requirements.as_deref().map(requirements::read).transpose()?.unwrap_or_default();
        // Both quotes mean the same in a marker, and the server accepts only one of them.
        packages.extend(self.pip.iter().map(|package| package.replace('"', "'")));
        Ok(packages)
    }
}

/// Parses the value of a flag for packages.
pub(super) fn parse_package(text: &str) -> Result<String, String> {
    let package = text.trim();
    if package.is_empty() || package.starts_with('-') || package.chars().any(char::is_control) {
        return Err("must be the name of a package, such as pandas or \"pandas>=2\"".to_owned());
    }
    Ok(package.to_owned())
}

/// Returns packages without their hashes, for people.
fn package_names(packages: &[String]) -> String {
    let names: Vec<&str> =
        packages.iter().filter_map(|package| package.split(" --hash=").next()).map(str::trim).collect();
    names.join(", ")
}

/// An environment with packages on the machine of the server.
pub(super) struct Built {
    /// The name of its image template.
    pub(super) template: String,
    pub(super) python: PathBuf,
}

/// Returns the name of the image with exactly these packages, based on this interpreter.
fn image_name(packages: &[String], base: Option<&str>) -> String {
    let mut hash = Sha256::new_with_prefix(packages.join("\n"));
    if let Some(base) = base {
        hash.update(format!("\n\0{base}"));
    }
    let hash = format!("{:x}", hash.finalize());
    format!("packages-{hash:.12}")
}

/// Creates an image; returns false if there is one of this name.
async fn create(client: &mut Client, request: &CreateImageTemplateRequest) -> Result<bool, Failure> {
    let call = async |client: &Client| client.images().create_image_template(request.clone()).await;
    match client.retry(call).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_taken => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Deletes an image whose build failed, even if broken clusters name it; it may be gone.
async fn delete_failed(client: &mut Client, namespace: &str, name: &str) -> Result<(), Failure> {
    let request = DeleteImageTemplateRequest {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        force: true,
        ..DeleteImageTemplateRequest::default()
    };
    match client.retry(async |client| client.images().delete_image_template(request.clone()).await).await {
        Err(failure) if failure.exit != Exit::NotFound => Err(failure),
        _ => Ok(()),
    }
}

/// Refuses packages before a server is called.
fn check(name: &str, packages: &[String]) -> Result<(), Failure> {
    let spec = ImageSpec { pip_packages: packages.to_vec(), ..ImageSpec::default() };
    spec.check(name).map_err(|error| {
        let failure = Failure::new(Exit::Usage, format!("packages: {error}"));
        match error {
            InvalidImageTemplate::TooLarge(_) => failure.hint(
                "export the file without hashes (uv export --no-hashes, pip-compile --no-generate-hashes, poetry export \
                 --without-hashes), or build an image with `muster image create --run 'pip install -r FILE'`",
            ),
            _ => failure,
        }
    })
}

/// Finds or builds the environment with these packages. It is based on the caller's interpreter that has the framework,
/// if there is one, else on what the server uses. A build that failed is started again: its cause may be gone.
///
/// At the deadline the build continues, and the next command finds its environment.
pub(super) async fn build(
    client: &mut Client,
    namespace: &str,
    packages: Vec<String>,
    base: Option<String>,
    deadline: Deadline,
) -> Result<Built, Failure> {
    let name = image_name(&packages, base.as_deref());
    check(&name, &packages)?;
    let late = || {
        let what = format!(
            "the environment with {} is not ready after {}, and nothing was created",
            package_names(&packages),
            deadline.limit_text()
        );
        let hint = format!(
            "its build continues: run the command again, or see `muster image logs {name} -n {namespace}`"
        );
        Failure::new(Exit::TimedOut, what).hint(hint)
    };
    tokio::select! {
        built = find_or_build(client, namespace, &name, &packages, base) => built,
        () = deadline.wait() => Err(late()),
    }
}

async fn find_or_build(
    client: &mut Client,
    namespace: &str,
    name: &str,
    packages: &[String],
    base: Option<String>,
) -> Result<Built, Failure> {
    let spinner = Spinner::new(String::new());
    spinner.print_line(&format!("Preparing an environment with {}", package_names(packages)));
    let template = ImageTemplate {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        pip_packages: packages.to_vec(),
        base_image: base.unwrap_or_default(),
        provider: "local".to_owned(),
        ..ImageTemplate::default()
    };
    let request = CreateImageTemplateRequest {
        image_template: Some(template),
        namespace: namespace.to_owned(),
        ..CreateImageTemplateRequest::default()
    };
    if !create(client, &request).await?
        && image::get(client, namespace, name).await?.state == ImageState::Failed.as_str()
    {
        spinner.print_line("An earlier build failed: building it again");
        delete_failed(client, namespace, name).await?;
        create(client, &request).await?;
    }
    let mut shown = String::new();
    loop {
        let found = image::get(client, namespace, name).await?;
        match found.state.as_str() {
            state if state == ImageState::Ready.as_str() => {
                return Ok(Built { template: name.to_owned(), python: found.image.into() });
            }
            state if state == ImageState::Failed.as_str() => {
                let what = format!("cannot build the environment: {}", found.status_reason);
                let hint = format!(
                    "`muster image logs {name} -n {namespace}` prints its log; the next command builds it again"
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
    use rstest::rstest;

    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn packages_come_from_files_and_flags() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("requirements.txt");
        std::fs::write(&file, "pandas>=2\n").unwrap();
        let pip = owned(&["six ; python_version > \"3.8\""]);
        let flags = PackageFlags { pip, requirements: Some(file) };
        assert_eq!(flags.all().unwrap(), ["pandas>=2", "six ; python_version > '3.8'"]);
    }

    #[rstest]
    #[case("")]
    #[case(" ")]
    #[case("-rother.txt")]
    fn a_value_that_is_not_a_package_is_refused(#[case] wrong: &str) {
        assert!(parse_package(wrong).is_err_and(|why| why.contains("must be the name of a package")));
        assert_eq!(parse_package(" six "), Ok("six".to_owned()));
    }

    #[test]
    fn the_same_packages_are_found_again() {
        let one = owned(&["six==1.16.0"]);
        let name = image_name(&one, None);
        assert_eq!(name.len(), "packages-".len() + 12);
        assert_eq!(name, image_name(&one, None));
        assert_ne!(name, image_name(&owned(&["six==1.17.0"]), None));
        assert_ne!(name, image_name(&one, Some("/venv/bin/python")));
        assert_ne!(image_name(&one, Some("/a")), image_name(&one, Some("/b")));
    }

    #[test]
    fn hashes_are_not_shown_and_files_that_are_too_large_are_refused_with_a_remedy() {
        let locked = owned(&["six==1.16.0 --hash=sha256:ab --hash=sha256:cd", "attrs"]);
        assert_eq!(package_names(&locked), "six==1.16.0, attrs");
        assert_eq!(check("packages-a", &locked), Ok(()));
        let refused = check("packages-a", &vec!["x".repeat(100); 2000]).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.to_string().contains("without hashes"), "{refused}");
    }
}
