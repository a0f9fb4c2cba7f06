//! The versions of the software that a cluster runs: the observed ones, otherwise the given ones, otherwise those in
//! the tag of its image.

use serde::{Deserialize, Serialize};

use crate::cluster::Cluster;
use crate::recipe::GivenRecipe;
use crate::unknown_fields::UnknownFields;

/// The versions of the software that a head runs; unknown versions are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SoftwareVersions {
    /// The version of Python, such as `3.12.4`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub python: String,
    /// The version of the framework.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub framework: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl SoftwareVersions {
    /// These versions, completed by `other`.
    #[must_use]
    fn or(self, other: Self) -> Self {
        let either = |own: String, other: String| if own.is_empty() { other } else { own };
        Self {
            python: either(self.python, other.python),
            framework: either(self.framework, other.framework),
            unknown: self.unknown,
        }
    }

    /// Reads the versions in the tag of an image that has the framework's name, such as
    /// `rayproject/ray:2.50.0-py312-cpu` or `ghcr.io/dask/dask:2026.3.0-py3.12`. Tags of other images may contain
    /// other version numbers.
    fn of_image(image: &str, framework: &str) -> Self {
        let name = image.rsplit('/').next().unwrap_or(image);
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        let Some((_, tag)) = name.split_once(':').filter(|(name, _)| *name == framework) else {
            return Self::default();
        };
        let mut parts = tag.split('-');
        let version = parts.next().filter(|version| is_version(version)).unwrap_or_default();
        let python = parts.find_map(|part| {
            let digits = part.strip_prefix("py3")?;
            let minor = digits.strip_prefix('.').unwrap_or(digits);
            let is_number = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| format!("3.{minor}"))
        });
        Self {
            python: python.unwrap_or_default(),
            framework: version.to_owned(),
            unknown: UnknownFields::default(),
        }
    }
}

fn is_version(text: &str) -> bool {
    text.contains('.')
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Cluster {
    /// The versions of the software that the cluster runs. `version` is the given version of the framework, or empty.
    pub fn software_versions(&self, version: &str) -> SoftwareVersions {
        let given = SoftwareVersions { framework: version.to_owned(), ..SoftwareVersions::default() };
        let head = GivenRecipe::stored_in(&self.spec).head.image;
        let of_worker = || self.observed.templates.values().map(|template| template.image.clone()).next();
        let image = head.or_else(of_worker).unwrap_or_default();
        let framework = self.framework.map(|framework| framework.to_string()).unwrap_or_default();
        let of_image = SoftwareVersions::of_image(&image, &framework);
        let observed = self.observed.versions.as_deref().cloned().unwrap_or_default();
        observed.or(given).or(of_image)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::Framework;
    use crate::sample;

    #[rstest]
    #[case("rayproject/ray:2.50.0-py312-cpu", "ray", "3.12", "2.50.0")]
    #[case("rayproject/ray:2.9.0", "ray", "", "2.9.0")]
    #[case("ghcr.io/dask/dask:2026.3.0-py3.12", "dask", "3.12", "2026.3.0")]
    #[case("registry:5000/spark:4.0.0-scala2.13-python3@sha256:0", "spark", "", "4.0.0")]
    #[case("rayproject/ray:latest-py310", "ray", "3.10", "")]
    #[case("mine/ray-jobs:7.1-py312", "ray", "", "")]
    #[case("mine/ray", "ray", "", "")]
    #[case("", "", "", "")]
    fn versions_are_read_from_tags_of_the_frameworks_own_images(
        #[case] image: &str,
        #[case] framework: &str,
        #[case] python: &str,
        #[case] version: &str,
    ) {
        let versions = SoftwareVersions::of_image(image, framework);
        assert_eq!((versions.python.as_str(), versions.framework.as_str()), (python, version));
    }

    #[test]
    fn what_was_observed_goes_before_what_was_given_and_that_before_a_tag() {
        let head = json!({"clusterSpec": {"headGroupSpec": {"image": "rayproject/ray:2.1.0-py310"}}});
        let mut cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 0, None) };
        cluster.spec.insert("cluster".to_owned(), head);
        let shown = |cluster: &Cluster, given: &str| {
            let SoftwareVersions { python, framework, .. } = cluster.software_versions(given);
            format!("{python} {framework}")
        };
        assert_eq!(shown(&cluster, ""), "3.10 2.1.0");
        assert_eq!(shown(&cluster, "2.2"), "3.10 2.2");
        let (python, framework) = ("3.12.4".to_owned(), "2.3.0".to_owned());
        let observed = SoftwareVersions { python, framework, ..SoftwareVersions::default() };
        cluster.observed.versions = Some(Box::new(observed));
        assert_eq!(shown(&cluster, "2.2"), "3.12.4 2.3.0");
    }

    #[test]
    fn versions_of_a_newer_version_stay() {
        let newer = json!({"python": "3.12.4", "java": "17"});
        let read: SoftwareVersions = serde_json::from_value(newer.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), newer);
    }
}
