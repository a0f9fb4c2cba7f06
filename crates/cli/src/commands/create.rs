//! `muster create`: a cluster, and wait until it works.

mod config;
mod group;

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::Result;
use clap::Parser;
use clap::builder::PossibleValuesParser;
use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_proto::v1alpha2::{
    Cluster, ClusterConfig, ClusterSpec, CreateClusterRequest, HeadGroupSpec, Shape, WorkerGroupSpec,
};
use muster_proto::wkt;
use serde_json::{Map, Value};

use self::config::ConfigFlags;
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
    /// What runs on it; if nothing is said what the stored configuration says, else `MUSTER_FRAMEWORK`, else dask
    #[arg(long, value_name = "FRAMEWORK", value_parser = frameworks())]
    framework: Option<String>,
    /// What runs on it if nothing else says so
    #[arg(long, env = "MUSTER_FRAMEWORK", hide = true, default_value = "dask", value_parser = default_framework)]
    default_framework: String,
    /// How many workers; if nothing is said what the stored configuration says, else 1
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
    #[command(flatten)]
    pub(super) config: ConfigFlags,
    /// The image if nothing else says so: the Python that the caller works with
    #[arg(skip)]
    default_image: Option<String>,
}

/// A length of time; how long it may be, the server says.
fn life(text: &str) -> Result<wkt::Duration, String> {
    wkt::Duration::from_str(text).map_err(|error| error.to_string())
}

/// A framework of the environment; an empty variable is one that is not set.
fn default_framework(text: &str) -> Result<String, String> {
    match text {
        "" => Ok(Framework::Dask.to_string()),
        text => match text.parse::<Framework>() {
            Ok(framework) => Ok(framework.to_string()),
            Err(_) => Err("MUSTER_FRAMEWORK is dask, ray or spark".to_owned()),
        },
    }
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
            spec.check()?;
            let mut client = server.connect().await?;
            let deadline = wait.deadline();
            spec.resolve_python(&client).await?;
            let mut request = CreateClusterRequest {
                across_rollouts: app.across_rollouts,
                namespace: namespace.namespace,
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..spec.request(name, properties)
            };
            let is_for_app = app.app.is_some();
            if let Some(cluster) = &mut request.cluster {
                cluster.app = app.app.unwrap_or_default();
                cluster.ephemeral = app.ephemeral;
            }
            let change = async |client: &Client| {
                let created = client.clusters().create_cluster(request.clone()).await?;
                let Cluster { name, ephemeral, .. } = created.get_ref();
                if app.ephemeral && !ephemeral {
                    say!("Could not create an ephemeral cluster, created a shared cluster instead");
                }
                if is_for_app {
                    say!("{} cluster {name} created", if *ephemeral { "ephemeral" } else { "shared" });
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

    /// Refuses values before a server is asked.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.config.check()?;
        match self.config.first_given() {
            Some(flag) if self.profile.is_some() => {
                let what = format!(
                    "{flag} is for clusters of a framework, and --profile gives another type of nodes"
                );
                Err(Failure::new(Exit::Usage, what).hint(format!("leave out {flag} or --profile")))
            }
            _ => Ok(()),
        }
    }

    /// A framework runs in the Python that the user has before them. Unless it is named, an image of a stored
    /// configuration goes before it.
    pub(super) async fn resolve_python(&mut self, client: &Client) -> Result<(), Failure> {
        if !self.is_of_framework() {
            return Ok(());
        }
        let (framework, is_named) = (self.framework().unwrap_or_default(), self.image.is_some());
        let python = python::resolve(client, self.provider(), framework, self.image.clone()).await?;
        if is_named {
            self.image = python;
        } else {
            self.default_image = python;
        }
        Ok(())
    }

    /// What runs on it; none if a stored configuration is named, which may give another framework than the default.
    pub(super) fn framework(&self) -> Option<&str> {
        let is_open = !self.config.stored_config().is_empty();
        self.framework.as_deref().or((!is_open).then_some(&self.default_framework))
    }

    /// A request with what is given and nothing else: the server completes it by stored configurations and defaults.
    pub(super) fn request(
        self,
        name: String,
        properties: Option<Map<String, Value>>,
    ) -> CreateClusterRequest {
        let stored_config = self.config.stored_config().to_owned();
        let workers = match self.group.as_slice() {
            [] => self.workers,
            [group] => Some(group.replicas),
            // Each has its own number.
            _ => None,
        };
        let config = self.profile.is_none().then(|| ClusterConfig {
            workers,
            default_framework: self.default_framework.clone(),
            default_image: self.default_image.clone().unwrap_or_default(),
            ..self.config.clone().values()
        });
        CreateClusterRequest {
            cluster: Some(self.cluster(name, properties)),
            stored_config,
            config,
            ..CreateClusterRequest::default()
        }
    }

    fn cluster(self, name: String, properties: Option<Map<String, Value>>) -> Cluster {
        let of_framework = self.profile.is_none();
        let framework = self.framework().filter(|_| of_framework).unwrap_or_default().to_owned();
        let Self {
            framework: _,
            default_framework: _,
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
            config: _,
            default_image: _,
        } = self;
        let image_template = image_template.unwrap_or_default();
        let provider = provider.unwrap_or_default();
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
                // Without a number, a cluster of a framework takes that of a stored configuration.
                replicas: workers.unwrap_or(i32::from(!of_framework)),
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
            framework,
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

    fn request(arguments: &[&str]) -> CreateClusterRequest {
        let spec = Spec::try_parse_from([&["create"], arguments].concat()).unwrap();
        spec.check().unwrap();
        spec.request("fred".to_owned(), None)
    }

    #[test]
    fn what_is_not_given_is_left_to_the_server() {
        let CreateClusterRequest { cluster, config, stored_config, .. } = request(&[]);
        let (cluster, config) = (cluster.unwrap(), config.unwrap());
        assert_eq!((config.workers, config.masters, stored_config.as_str()), (None, None, ""));
        assert_eq!(cluster.framework, config.default_framework, "no set can change it");
        assert_eq!(cluster.cluster_spec.unwrap().worker_group_spec[0].replicas, 0);
        let named = request(&["--storedconfig", "big"]);
        assert_eq!((named.cluster.unwrap().framework.as_str(), named.stored_config.as_str()), ("", "big"));
    }

    #[test]
    fn what_is_given_goes_before_a_stored_configuration() {
        let given =
            ["--framework", "spark", "--workers", "0", "--storedconfig", "big", "--metrics", "jolokia"];
        let CreateClusterRequest { cluster, config, stored_config, .. } = request(&given);
        let (cluster, config) = (cluster.unwrap(), config.unwrap());
        assert_eq!((cluster.framework.as_str(), stored_config.as_str()), ("spark", "big"));
        assert_eq!((config.workers, config.metrics.as_str()), (Some(0), "jolokia"));
    }

    #[test]
    fn one_group_has_its_own_number_of_workers_and_so_have_several() {
        let one = request(&["--group", "name=a,workers=0"]);
        assert_eq!(one.config.unwrap().workers, Some(0));
        let two = request(&["--group", "name=a,workers=2", "--group", "name=b"]);
        assert_eq!(two.config.unwrap().workers, None);
        let sizes: Vec<i32> =
            two.cluster.unwrap().cluster_spec.unwrap().worker_group_spec.iter().map(|g| g.replicas).collect();
        assert_eq!(sizes, [2, 1]);
    }

    #[test]
    fn other_nodes_than_those_of_a_framework_take_no_configuration() {
        let plain = request(&["--profile", "local.process-1.0"]);
        assert_eq!(plain.config, None);
        assert_eq!(plain.cluster.unwrap().cluster_spec.unwrap().worker_group_spec[0].replicas, 1);
        let flags = ["create", "--profile", "local.process-1.0", "--storedconfig", "big"];
        let failure = Spec::try_parse_from(flags).unwrap().check().unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.what.starts_with("--storedconfig is for clusters of a framework"), "{failure}");
    }

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
