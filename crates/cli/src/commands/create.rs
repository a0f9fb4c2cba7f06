//! `muster create`: a cluster, and wait until it works.

mod group;

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::Result;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_proto::v1alpha2::{
    Cluster, ClusterSpec, CreateClusterRequest, HeadGroupSpec, Shape, WorkerGroupSpec,
};
use muster_proto::wkt;
use serde_json::{Map, Value};

use super::{NamespaceFlag, carry_out, python, request_id, shape};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::FormatFlag;
use crate::output::{self, say};
use crate::wait::WaitFlags;

/// Create a cluster
#[derive(Debug, Parser)]
pub(crate) struct Create {
    /// What to call it
    name: String,
    #[command(flatten)]
    spec: Spec,
    #[command(flatten)]
    app: AppFlags,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// The app that a cluster is made for.
#[derive(Debug, Parser)]
struct AppFlags {
    /// The app that uses it: a name, kind/name such as deploy/bob, or the name of a pod
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Delete it when that app is gone
    #[arg(short = 'e', long)]
    ephemeral: bool,
    /// Keep an ephemeral cluster when the app's Deployment is rolled out again
    #[arg(long, requires = "ephemeral")]
    across_rollouts: bool,
}

/// What to create.
#[derive(Debug, Clone, Parser)]
pub(super) struct Spec {
    /// What runs on it
    #[arg(long, env = "MUSTER_FRAMEWORK", value_name = "FRAMEWORK", default_value = "dask", value_parser = frameworks())]
    pub(super) framework: String,
    /// How many workers; 1 if nothing is said
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) workers: Option<i32>,
    /// A worker group, such as name=small,workers=2,min=1,max=4,cpu=2,memory=4Gi; again for every further one
    #[arg(long, value_name = "GROUP", value_parser = group::parse, conflicts_with_all = ["workers", "shape"])]
    group: Vec<WorkerGroupSpec>,
    /// What each worker is given: the name of a shape (muster shape list), or amounts such as cpu=2,memory=4Gi,gpu=1
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse)]
    shape: Option<Shape>,
    /// What the head is given, likewise
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse)]
    head_shape: Option<Shape>,
    /// Where it runs: local or kubernetes; kubernetes if the server has one, else local
    #[arg(long, value_name = "PROVIDER")]
    pub(super) provider: Option<String>,
    /// Which objects stand for it on Kubernetes: kuberay, dask-operator, native; what is installed if nothing is said
    #[arg(long, value_name = "FLAVOR")]
    flavor: Option<String>,
    /// The container image, or on the local provider the Python interpreter
    #[arg(long, value_name = "IMAGE")]
    pub(super) image: Option<String>,
    /// An image that was built by muster image create
    #[arg(long, value_name = "NAME", conflicts_with = "image")]
    pub(super) image_template: Option<String>,
    /// Delete it when it has not been used for so long, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = life)]
    idle_timeout: Option<wkt::Duration>,
    /// Delete it when it has been there for so long, whatever runs on it
    #[arg(long, value_name = "DURATION", value_parser = life)]
    max_lifetime: Option<wkt::Duration>,
    /// The type of its nodes, such as local.process-1.0, instead of a framework
    #[arg(long, value_name = "TYPE")]
    profile: Option<String>,
    /// Properties of the profile: a JSON object, or a file with one (JSON or YAML)
    #[arg(long, value_name = "JSON|FILE")]
    profile_properties: Option<String>,
}

/// A length of time; how long it may be, the server says.
fn life(text: &str) -> Result<wkt::Duration, String> {
    wkt::Duration::from_str(text).map_err(|error| error.to_string())
}

fn frameworks() -> PossibleValuesParser {
    PossibleValuesParser::new(Framework::ALL.iter().map(|framework| framework.as_str()))
}

impl Create {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, mut spec, app, namespace, wait, format, server } = self;
            if app.ephemeral && app.app.is_none() {
                let what = "An app value must be supplied if ephemeral is used";
                return Err(Failure::new(Exit::Usage, what).into());
            }
            let properties = spec.profile_properties.as_deref().map(properties).transpose()?;
            let mut client = server.connect().await?;
            let deadline = wait.deadline();
            // A framework runs in the Python that the user has before them.
            if spec.is_of_framework() {
                let (provider, image) = (spec.provider.as_deref().unwrap_or_default(), spec.image.take());
                spec.image = python::resolve(&client, provider, &spec.framework, image).await?;
            }
            let request = CreateClusterRequest {
                cluster: Some(Cluster {
                    app: app.app.unwrap_or_default(),
                    ephemeral: app.ephemeral,
                    ..spec.cluster(name, properties)
                }),
                across_rollouts: app.across_rollouts,
                namespace: namespace.namespace,
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..CreateClusterRequest::default()
            };
            let change = async |client: &Client| {
                let created = client.clusters().create_cluster(request.clone()).await?;
                if app.ephemeral && !created.get_ref().ephemeral {
                    say!("Could not create an ephemeral cluster, created a shared cluster instead");
                }
                Ok(created)
            };
            Box::pin(carry_out(&mut client, change, wait.no_wait, deadline, &format)).await
        })
    }
}

impl Spec {
    /// Whether the cluster runs a framework, in an image or a Python that may be chosen here.
    pub(super) const fn is_of_framework(&self) -> bool {
        self.profile.is_none() && self.image_template.is_none()
    }

    /// Where it runs; empty if that is not given.
    pub(super) fn provider(&self) -> &str {
        self.provider.as_deref().unwrap_or_default()
    }

    pub(super) fn cluster(self, name: String, properties: Option<Map<String, Value>>) -> Cluster {
        let Self {
            framework,
            workers,
            group,
            shape,
            head_shape,
            provider,
            flavor,
            image,
            image_template,
            idle_timeout,
            max_lifetime,
            profile,
            profile_properties: _,
        } = self;
        let image_template = image_template.unwrap_or_default();
        let provider = provider.unwrap_or_default();
        let of_framework = profile.is_none();
        let image = image.unwrap_or_default();
        let head = HeadGroupSpec {
            image: image.clone(),
            image_template: image_template.clone(),
            shape: head_shape,
            ..HeadGroupSpec::default()
        };
        let head = (head != HeadGroupSpec::default()).then_some(head);
        let mut groups = group;
        if groups.is_empty() {
            groups.push(WorkerGroupSpec {
                group_name: DEFAULT_GROUP.to_owned(),
                replicas: workers.unwrap_or(1),
                shape,
                ..WorkerGroupSpec::default()
            });
        }
        for group in &mut groups {
            group.image.clone_from(&image);
            group.image_template.clone_from(&image_template);
        }
        Cluster {
            name,
            framework: if of_framework { framework } else { String::new() },
            profile: profile.unwrap_or_default(),
            profile_properties: properties.map(Into::into),
            provider,
            flavor: flavor.unwrap_or_default(),
            idle_timeout,
            max_lifetime,
            cluster_spec: Some(ClusterSpec {
                head_group_spec: head,
                worker_group_spec: groups,
                ..ClusterSpec::default()
            }),
            ..Cluster::default()
        }
    }
}

/// Properties as they were given: by themselves, or in a file.
fn properties(given: &str) -> Result<Map<String, Value>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("--profile-properties: {why}"));
    let parsed = if given.trim_start().starts_with('{') {
        serde_json::from_str(given).map_err(|error| wrong(format!("this is no JSON object: {error}")))?
    } else {
        let path = Path::new(given);
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
        // JSON is YAML too.
        serde_saphyr::from_str(&text)
            .map_err(|error| wrong(format!("{} is neither JSON nor YAML: {error}", path.display())))?
    };
    match parsed {
        Value::Object(map) => Ok(map),
        other => Err(wrong(format!("an object is expected, and this is {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_an_object_given_or_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.yaml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            properties(file.to_str().unwrap())
        };
        let expected = properties(r#" {"metadata": {"simulated_wait_time": 1}}"#).unwrap();
        assert_eq!(read("metadata:\n  simulated_wait_time: 1\n").unwrap(), expected);
        assert_eq!(read(r#"{"metadata": {"simulated_wait_time": 1}}"#).unwrap(), expected);
        for (given, why) in [
            (properties("{"), "no JSON object"),
            (properties("/no/such/file"), "cannot read /no/such/file"),
            (read("- 1\n"), "an object is expected"),
            (read("a: b: c"), "neither JSON nor YAML"),
        ] {
            let failure = given.unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.to_string().contains(why), "{failure}");
        }
    }
}
