//! The versions of the software that a cluster runs: the observed ones, otherwise those in the tag of the head's own
//! image, otherwise the given ones, otherwise those in the tag of the default image.

use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, WorkerGroup};
use crate::recipe::{GivenRecipe, NodeRecipe};
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
        let Some(tag) = ImageTag::of(image).filter(|tag| tag.image == framework) else {
            return Self::default();
        };
        Self {
            python: tag.python().unwrap_or_default(),
            framework: tag.version().unwrap_or_default().to_owned(),
            unknown: UnknownFields::default(),
        }
    }
}

/// The tag of an image, whose first part is a version by convention: `rayproject/ray:2.50.0-py312-cpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageTag<'i> {
    /// The name of the image without registry and folders: `ray`.
    pub image: &'i str,
    /// The tag: `2.50.0-py312-cpu`.
    pub tag: &'i str,
}

impl<'i> ImageTag<'i> {
    /// Reads the tag in the name of an image, which may have a port and a digest, too; `None` without a tag.
    pub fn of(image: &'i str) -> Option<Self> {
        let name = image.split_once('@').map_or(image, |(name, _digest)| name);
        let name = name.rsplit('/').next().unwrap_or(name);
        name.split_once(':').map(|(image, tag)| Self { image, tag })
    }

    /// The version that the tag begins with: numbers with dots, such as `2.50.0` or `2.50.0rc1`. `None` for tags
    /// such as `latest`.
    pub fn version(self) -> Option<&'i str> {
        self.tag.split('-').next().filter(|part| is_version(part))
    }

    /// The version of Python in the other parts of the tag: `py312` and `py3.12` are `3.12`.
    fn python(self) -> Option<String> {
        self.tag.split('-').skip(1).find_map(|part| {
            let digits = part.strip_prefix("py3")?;
            let minor = digits.strip_prefix('.').unwrap_or(digits);
            let is_number = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| format!("3.{minor}"))
        })
    }
}

/// Returns the major and the minor version; `None` if one of them is not a number.
pub fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn is_version(text: &str) -> bool {
    let starts_with_digit = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    major_and_minor(text).is_some() && text.split('.').all(starts_with_digit)
}

impl Cluster {
    /// The versions of the software that the cluster runs. `version` is the given version of the framework, or empty.
    pub fn software_versions(&self, version: &str) -> SoftwareVersions {
        let given = SoftwareVersions { framework: version.to_owned(), ..SoftwareVersions::default() };
        let framework = self.framework.map(|framework| framework.to_string()).unwrap_or_default();
        let of_image =
            |image: Option<String>| SoftwareVersions::of_image(&image.unwrap_or_default(), &framework);
        let head = GivenRecipe::stored_in(&self.spec).head.image;
        // Without images of their own, head and workers run the same image. The row of an external cluster has no head;
        // usually that runs the image of the workers, too.
        let is_same =
            |group: &&WorkerGroup| self.is_external() || NodeRecipe::stored_in(group).image.is_none();
        let template = |group: &WorkerGroup| self.observed.templates.get(&group.name);
        let worker = self.groups.iter().filter(is_same).find_map(template).filter(|_| head.is_none());
        let of_worker = of_image(worker.map(|worker| worker.image.clone()));
        let observed = self.observed.versions.as_deref().cloned().unwrap_or_default();
        // A head with an image of its own does not run the given version, which chooses the default image.
        observed.or(of_image(head)).or(given).or(of_worker)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::{Framework, WorkerTemplate};
    use crate::sample;

    #[rstest]
    #[case("rayproject/ray:2.50.0-py312-cpu", "ray", "3.12", "2.50.0")]
    #[case("rayproject/ray:2.9.0", "ray", "", "2.9.0")]
    #[case("localhost:5000/rayproject/ray:2.50.0rc1-py312", "ray", "3.12", "2.50.0rc1")]
    #[case("rayproject/ray:2.x", "ray", "", "")]
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
    fn what_was_observed_goes_before_the_heads_tag_and_that_before_what_was_given() {
        let head = json!({"clusterSpec": {"headGroupSpec": {"image": "rayproject/ray:2.1.0-py310"}}});
        let mut cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 0, None) };
        cluster.spec.insert("cluster".to_owned(), head);
        let shown = |cluster: &Cluster, given: &str| {
            let SoftwareVersions { python, framework, .. } = cluster.software_versions(given);
            format!("{python} {framework}")
        };
        assert_eq!(shown(&cluster, ""), "3.10 2.1.0");
        assert_eq!(shown(&cluster, "2.2"), "3.10 2.1.0");
        let plain = Cluster { spec: serde_json::Map::new(), ..cluster.clone() };
        assert_eq!(shown(&plain, "2.2"), " 2.2");
        let (python, framework) = ("3.12.4".to_owned(), "2.3.0".to_owned());
        let observed = SoftwareVersions { python, framework, ..SoftwareVersions::default() };
        cluster.observed.versions = Some(Box::new(observed));
        assert_eq!(shown(&cluster, "2.2"), "3.12.4 2.3.0");
    }

    #[test]
    fn the_tag_of_the_workers_counts_only_if_the_head_runs_the_same_image() {
        let mut cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 1, None) };
        let group = cluster.groups[0].name.clone();
        let image = "rayproject/ray:2.4.0".to_owned();
        let template = WorkerTemplate { image: image.clone(), ..WorkerTemplate::default() };
        cluster.observed.templates.insert(group, template);
        let shown = |cluster: &Cluster| cluster.software_versions("").framework;
        assert_eq!(shown(&cluster), "2.4.0");
        let mut other_workers = cluster.clone();
        other_workers.groups[0].spec = NodeRecipe { image: Some(image), ..NodeRecipe::default() }.into_spec();
        assert_eq!(shown(&other_workers), "");
        let head = json!({"clusterSpec": {"headGroupSpec": {"image": "mine/custom-ray:2.1.0"}}});
        cluster.spec.insert("cluster".to_owned(), head);
        assert_eq!(shown(&cluster), "");
    }

    #[test]
    fn versions_of_a_newer_version_stay() {
        let newer = json!({"python": "3.12.4", "java": "17"});
        let read: SoftwareVersions = serde_json::from_value(newer.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), newer);
    }
}
