//! Image templates: recipes for container images, or for Python environments of local processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dns_label::{LONGEST_DNS_LABEL, is_dns_label};
use crate::ids::{ImageTemplateId, InstanceId};
use crate::string_enum::string_enum;
use crate::task::{Task, TaskStatus};
use crate::time::Timestamp;
use crate::unknown_fields::UnknownFields;

/// The largest recipe in bytes, which has to fit into an object of Kubernetes.
const LARGEST_SPEC: usize = 128 << 10;

string_enum! {
    /// The state of an image template.
    ImageState, "image state" {
        /// Its build has not begun.
        Pending = "PENDING",
        /// It is being built.
        Building = "BUILDING",
        /// Its image can be used.
        Ready = "READY",
        /// Its build failed.
        Failed = "FAILED",
    }
}

/// A recipe for an image, with the task that builds it.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageTemplate {
    /// Its id.
    pub id: ImageTemplateId,
    /// The namespace.
    pub namespace: String,
    /// Its name, unique in the namespace.
    pub name: String,
    /// The tenant.
    pub project: String,
    /// Its creator.
    pub user: String,
    /// The provider instance that builds the image, and where the image can be used.
    pub instance: InstanceId,
    /// The recipe.
    pub spec: ImageSpec,
    /// The name of the image, which can be used once the build has succeeded.
    pub image: String,
    /// The task that builds the image.
    pub task: Task,
    /// The time of creation.
    pub created_at: Timestamp,
}

impl ImageTemplate {
    /// The state of the template, derived from its build.
    pub const fn state(&self) -> ImageState {
        match self.task.status {
            TaskStatus::Ready => ImageState::Pending,
            TaskStatus::Running => ImageState::Building,
            TaskStatus::Succeeded => ImageState::Ready,
            TaskStatus::Failed | TaskStatus::Cancelled => ImageState::Failed,
        }
    }
}

/// The content of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageSpec {
    /// The image that it is based on.
    pub base_image: String,
    /// Packages that pip installs.
    pub pip_packages: Vec<String>,
    /// Packages that conda installs.
    pub conda_packages: Vec<String>,
    /// Packages of the operating system.
    pub system_packages: Vec<String>,
    /// Environment variables.
    pub environment_variables: BTreeMap<String, String>,
    /// Commands of the shell, which run last.
    pub custom_commands: String,
    /// The compute template that the build gets its resources from, on Kubernetes.
    pub compute_template: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The reason why an image template is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImageTemplate {
    /// No name.
    #[error("Image template name is empty. Please specify a valid value.")]
    NoName,
    /// A name that is not a DNS label.
    #[error(
        "image template name is '{0}': must have lowercase letters, digits and '-', begin and end with a letter or \
         digit, and have at most {LONGEST_DNS_LABEL} characters"
    )]
    Name(String),
    /// A text that does not name a package.
    #[error("{field} has {given:?}: must be the name of a package, such as six or six==1.16.0")]
    Package {
        /// The field.
        field: &'static str,
        /// The package.
        given: String,
    },
    /// A variable that no process can have.
    #[error(
        "environment variable is {0:?}: its name must have letters, digits and '_', and its value one line without \
         NUL"
    )]
    Variable(String),
    /// Characters that no command can have.
    #[error("{0} has a NUL character: remove it")]
    Nul(&'static str),
    /// A base that is no name of an image.
    #[error("base_image is {0:?}: must be the name of an image, without spaces and control characters")]
    BaseImage(String),
    /// A recipe of this many bytes, which is too large.
    #[error("the template has {0} bytes: must have at most {LARGEST_SPEC}")]
    TooLarge(usize),
}

impl ImageSpec {
    /// Checks a new template. Everything in it becomes part of commands, so that a value must not be able to add a
    /// line or an option.
    pub fn check(&self, name: &str) -> Result<(), InvalidImageTemplate> {
        if name.is_empty() {
            return Err(InvalidImageTemplate::NoName);
        }
        if !is_dns_label(name) {
            return Err(InvalidImageTemplate::Name(name.to_owned()));
        }
        let packages = [
            ("pip_packages", &self.pip_packages),
            ("conda_packages", &self.conda_packages),
            ("system_packages", &self.system_packages),
        ];
        for (field, packages) in packages {
            if let Some(given) = packages.iter().find(|package| !is_package(package)).cloned() {
                return Err(InvalidImageTemplate::Package { field, given });
            }
        }
        let wrong = |(name, value): &(&String, &String)| !is_variable(name) || value.contains(['\0', '\n']);
        if let Some((name, _)) = self.environment_variables.iter().find(wrong) {
            return Err(InvalidImageTemplate::Variable(name.clone()));
        }
        if self.custom_commands.contains('\0') {
            return Err(InvalidImageTemplate::Nul("custom_commands"));
        }
        if self.base_image.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
            return Err(InvalidImageTemplate::BaseImage(self.base_image.clone()));
        }
        let size = self.content().len();
        if size > LARGEST_SPEC { Err(InvalidImageTemplate::TooLarge(size)) } else { Ok(()) }
    }

    /// The inputs that determine the content of the image, as one text: equal content has equal texts.
    pub fn content(&self) -> String {
        let Self {
            base_image,
            pip_packages,
            conda_packages,
            system_packages,
            environment_variables,
            custom_commands,
            compute_template: _,
            unknown: _,
        } = self;
        let parts = (
            base_image,
            pip_packages,
            conda_packages,
            system_packages,
            environment_variables,
            custom_commands,
        );
        serde_json::to_string(&parts).unwrap_or_default()
    }
}

/// Accepts a package with version and extras, or its URL. A text that begins with a hyphen would be an option.
fn is_package(given: &str) -> bool {
    !given.trim().is_empty()
        && !given.trim_start().starts_with('-')
        && !given.chars().any(|letter| letter.is_control() || letter == '"')
}

fn is_variable(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn spec() -> ImageSpec {
        ImageSpec { pip_packages: vec!["six==1.16.0".to_owned()], ..ImageSpec::default() }
    }

    #[rstest]
    #[case::right("a-1", spec(), None)]
    #[case::nothing("a", ImageSpec::default(), None)]
    #[case::no_name("", spec(), Some("Image template name is empty"))]
    #[case::bad_name("A_b", spec(), Some("image template name is 'A_b': must have lowercase"))]
    #[case::option("a", ImageSpec { pip_packages: vec!["--index-url=http://x".into()], ..spec() }, Some("pip_packages has"))]
    #[case::line("a", ImageSpec { system_packages: vec!["a\nRUN b".into()], ..spec() }, Some("system_packages has"))]
    #[case::empty("a", ImageSpec { conda_packages: vec![" ".into()], ..spec() }, Some("conda_packages has"))]
    #[case::variable("a", ImageSpec { environment_variables: [("A B".to_owned(), String::new())].into(), ..spec() }, Some("\"A B\""))]
    #[case::value("a", ImageSpec { environment_variables: [("A".to_owned(), "b\nRUN c".to_owned())].into(), ..spec() }, Some("\"A\""))]
    #[case::base("a", ImageSpec { base_image: "a b".into(), ..spec() }, Some("base_image"))]
    #[case::large("a", ImageSpec { custom_commands: "x".repeat(LARGEST_SPEC), ..spec() }, Some("bytes"))]
    fn templates_are_checked(#[case] name: &str, #[case] spec: ImageSpec, #[case] why: Option<&str>) {
        let checked = spec.check(name).map_err(|error| error.to_string());
        match why {
            None => assert_eq!(checked, Ok(())),
            Some(why) => assert!(checked.as_ref().is_err_and(|error| error.contains(why)), "{checked:?}"),
        }
    }

    #[test]
    fn the_same_content_has_the_same_text_whatever_it_is_built_with() {
        let one = ImageSpec { compute_template: "small".to_owned(), ..spec() };
        assert_eq!(one.content(), spec().content());
        let other = ImageSpec { custom_commands: "true".to_owned(), ..spec() };
        assert_ne!(other.content(), spec().content());
    }
}
