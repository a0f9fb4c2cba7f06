//! `muster create`: creates a cluster and waits until it is usable.

mod app;
mod code;
mod config;
mod env_file;
mod existing;
mod group;
mod manifest;
mod name_conflict;
mod values;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_core::cluster::{DEFAULT_GROUP, Framework};
use muster_proto::v1alpha2::{
    Cluster, ClusterConfig, ClusterSpec, CreateClusterRequest, HeadGroupSpec, Shape, WorkerGroupSpec,
};
use muster_proto::wkt;
use serde_json::{Map, Value};

use self::app::AppFlags;
use self::code::{Code, CodeFlags, NodeLocation};
use self::config::ConfigFlags;
use self::existing::ExistingCluster;
use self::values::{
    framework_parser, parse_default_framework, parse_label, parse_lifetime, parse_properties,
};
use super::packages::{self, Built, PackageFlags};
use super::{NamespaceFlag, carry_out, one_cluster, python, request_id, shape};
use crate::complete;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, FormatFlag};
use crate::output::{self, message};
use crate::wait::{Deadline, WaitFlags};

/// Create a cluster
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster create fred --workers 2\n  muster create -f fred.yaml --dry-run\n  muster create fred --framework ray --shape cpu=2,memory=4Gi --idle-timeout 30m\n  muster create fred --pip \"pandas>=2\" --env-file .env --if-not-exists"
)]
pub(crate) struct Create {
    /// Name of the cluster [default with --file: the name in the file]
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Create the cluster described in this file, in the format of `muster get NAME -o yaml` (YAML or JSON; - for standard
    /// input)
    #[arg(
        short = 'f',
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "framework", "workers", "group", "shape", "machine_type", "head_shape", "provider", "flavor", "image", "pip",
            "requirements", "env", "env_file", "workdir", "label", "image_template", "idle_timeout", "max_lifetime",
            "profile", "profile_properties", "storedconfig", "masters", "masterconfig", "workerconfig", "metrics",
            "exposeui", "app", "ephemeral"
        ]
    )]
    file: Option<String>,
    /// Check the request and print what would be created, without creating it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    spec: Spec,
    /// If a cluster of this name exists, wait until it is usable, and do not change it
    #[arg(long)]
    if_not_exists: bool,
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

fn print_cluster(format: &FormatFlag, cluster: &Cluster) -> Result<ExitCode> {
    format::one(format.format, cluster, |wide| one_cluster::cluster(cluster, &[], wide))
}

/// Flags that describe the cluster to create.
#[derive(Debug, Clone, Parser)]
pub(super) struct Spec {
    /// The framework [default: that of the stored configuration, else `MUSTER_FRAMEWORK`, else dask]
    #[arg(long, value_name = "FRAMEWORK", value_parser = framework_parser())]
    framework: Option<String>,
    /// The framework if neither flag nor stored configuration gives one; empty if it is not set
    #[arg(long, env = "MUSTER_FRAMEWORK", hide = true, default_value = "", value_parser = parse_default_framework)]
    default_framework: String,
    /// Number of workers [default: that of the stored configuration, else 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = super::parse_count)]
    pub(super) workers: Option<i32>,
    /// A worker group, such as name=small,workers=2,min=1,max=4,cpu=2,memory=4Gi; may be repeated
    #[arg(long, value_name = "GROUP", value_parser = group::parse, conflicts_with_all = ["workers", "shape", "machine_type"])]
    group: Vec<WorkerGroupSpec>,
    /// Resources of each worker: the name of a shape (muster shape list), or amounts such as cpu=2,memory=4Gi,gpu=1
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse, add = complete::shapes())]
    shape: Option<Shape>,
    /// Machine type on Kubernetes whose slots the workers use (muster machines); a worker waits until a slot is free
    #[arg(long, value_name = "GROUP/TYPE", value_parser = group::parse_machine_type, conflicts_with = "shape")]
    machine_type: Option<(String, String)>,
    /// Resources of the head, in the same form
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse, add = complete::shapes())]
    head_shape: Option<Shape>,
    /// Where the cluster runs: local or kubernetes [default: kubernetes if the server has one, else local]
    #[arg(long, value_name = "PROVIDER")]
    pub(super) provider: Option<String>,
    /// Kubernetes objects that represent the cluster: kuberay, dask-operator or native [default: what is installed]
    #[arg(long, value_name = "FLAVOR")]
    flavor: Option<String>,
    /// Container image; on the local provider the Python interpreter
    #[arg(long, value_name = "IMAGE", visible_alias = "python")]
    pub(super) image: Option<String>,
    #[command(flatten)]
    pub(super) packages: PackageFlags,
    #[command(flatten)]
    code: CodeFlags,
    /// A label, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Name of an image that `muster image create` built
    #[arg(long, value_name = "NAME", conflicts_with = "image")]
    pub(super) image_template: Option<String>,
    /// Delete the cluster after this long without use, such as 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = parse_lifetime)]
    idle_timeout: Option<wkt::Duration>,
    /// Delete the cluster this long after its creation, whatever runs on it
    #[arg(long, value_name = "DURATION", value_parser = parse_lifetime)]
    max_lifetime: Option<wkt::Duration>,
    /// Profile type of the nodes, such as local.process-1.0, instead of a framework
    #[arg(long, value_name = "TYPE")]
    profile: Option<String>,
    /// Properties of the profile: a JSON object, or the path of a file (JSON or YAML)
    #[arg(long, value_name = "JSON|FILE")]
    profile_properties: Option<String>,
    #[command(flatten)]
    pub(super) config: ConfigFlags,
    /// The caller's own Python, which is used if neither flag nor stored configuration gives an image.
    #[arg(skip)]
    default_image: Option<String>,
    /// The resolved flags for code; set once the provider is known.
    #[arg(skip)]
    resolved_code: Code,
}

/// Returns where the nodes of this provider run.
fn node_location(client: &Client, provider: &str) -> NodeLocation {
    match python::is_local(client, provider) {
        true if client.is_local() => NodeLocation::ThisMachine,
        true => NodeLocation::OtherMachine,
        false => NodeLocation::Kubernetes,
    }
}

impl Create {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self {
                name,
                file,
                dry_run,
                mut spec,
                if_not_exists,
                app,
                mut namespace,
                wait,
                format,
                server,
            } = self;
            if app.ephemeral && app.app.is_none() {
                let what = "An app value must be supplied if ephemeral is used";
                return Err(Failure::new(Exit::Usage, what).into());
            }
            let properties = spec.properties()?;
            spec.check()?;
            let given = file.as_deref().map(manifest::read).transpose()?;
            let name = name.or_else(|| given.as_ref().map(|given| given.name.clone())).unwrap_or_default();
            if let Some(given) = &given {
                namespace.or(&given.namespace);
            }
            let deadline = wait.deadline();
            let mut client = deadline.limit(server.connect()).await?;
            let namespace = namespace.resolve(&mut client).await?;
            let existing = ExistingCluster {
                namespace: namespace.clone(),
                name: name.clone(),
                no_wait: wait.no_wait || dry_run,
                deadline,
            };
            if if_not_exists && let Some(cluster) = existing.wait_until_usable(&mut client).await? {
                return print_cluster(&format, &cluster);
            }
            let described = match given {
                Some(given) => {
                    let described = manifest::request(name, given, spec.default_framework());
                    manifest::with_callers_python(&client, described).await?
                }
                None => {
                    if dry_run && spec.packages.first_given().is_some() {
                        message!("dry run: packages are neither checked nor installed");
                        spec.packages = PackageFlags::default();
                    }
                    spec.resolve(&mut client, &namespace, deadline).await?;
                    app.add_to(spec.request(name, properties))
                }
            };
            let mut request = CreateClusterRequest {
                across_rollouts: app.across_rollouts,
                namespace,
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                validate_only: dry_run,
                ..described
            };
            if dry_run {
                let check = async |client: &Client| client.clusters().create_cluster(request.clone()).await;
                let cluster = Box::pin(client.retry(check)).await?.into_inner();
                message!("dry run: cluster '{}' could be created", cluster.name);
                return print_cluster(&format, &cluster);
            }
            loop {
                let change = async |client: &Client| app.create(client, &request).await;
                let error =
                    match Box::pin(carry_out(&mut client, change, wait.no_wait, deadline, &format)).await {
                        Err(error) => error,
                        result => return result,
                    };
                if !(if_not_exists && name_conflict::is_taken(&error)) {
                    return Err(name_conflict::explain(&mut client, &request, error).await);
                }
                // Another command created a cluster of this name after the first search.
                if let Some(cluster) = existing.wait_until_usable(&mut client).await? {
                    return print_cluster(&format, &cluster);
                }
                // That cluster is gone already.
                request.request_id = request_id();
            }
        })
    }
}

impl Spec {
    /// Returns true if the cluster runs a framework, in an image or a Python that may be chosen here.
    pub(super) const fn is_of_framework(&self) -> bool {
        self.profile.is_none() && self.image_template.is_none()
    }

    /// Reads the properties of the profile.
    pub(super) fn properties(&self) -> Result<Option<Map<String, Value>>, Failure> {
        self.profile_properties.as_deref().map(parse_properties).transpose()
    }

    /// Returns the given provider; empty if none is given.
    pub(super) fn provider(&self) -> &str {
        self.provider.as_deref().unwrap_or_default()
    }

    /// Returns the first given flag that applies to new clusters only.
    pub(super) fn first_of_new_cluster(&self) -> Option<&'static str> {
        let flags = [
            ("--framework", self.framework.is_some()),
            ("--workers", self.workers.is_some()),
            ("--group", !self.group.is_empty()),
            ("--shape", self.shape.is_some()),
            ("--machine-type", self.machine_type.is_some()),
            ("--head-shape", self.head_shape.is_some()),
            ("--provider", self.provider.is_some()),
            ("--flavor", self.flavor.is_some()),
            ("--image", self.image.is_some()),
            ("--label", !self.label.is_empty()),
            ("--image-template", self.image_template.is_some()),
            ("--idle-timeout", self.idle_timeout.is_some()),
            ("--max-lifetime", self.max_lifetime.is_some()),
            ("--profile", self.profile.is_some()),
            ("--profile-properties", self.profile_properties.is_some()),
        ];
        let given = flags.into_iter().find_map(|(flag, given)| given.then_some(flag));
        given.or_else(|| self.config.first_given()).or_else(|| self.packages.first_given())
    }

    /// Resolves folder and variables of a command that runs beside the nodes of this provider.
    pub(super) fn code(
        &self,
        client: &Client,
        provider: &str,
    ) -> Result<(String, BTreeMap<String, String>), Failure> {
        let Code { working_dir, variables } = self.code.resolve(node_location(client, provider))?;
        Ok((working_dir, variables))
    }

    /// Checks the flags before a server is called.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.config.check()?;
        let given = [self.config.first_given(), self.code.first_given(), self.packages.first_given()];
        match given.into_iter().flatten().next() {
            Some(flag) if self.profile.is_some() => {
                let what =
                    format!("{flag} is for clusters of a framework; --profile selects another type of node");
                Err(Failure::new(Exit::Usage, what).hint(format!("leave out {flag} or --profile")))
            }
            _ => Ok(()),
        }
    }

    /// Resolves what depends on where the nodes will run: folder, variables, packages and Python. Returns the Python
    /// with the packages if there are any, which fails if they are not ready at the deadline. A framework runs in the user's active Python; an image of a stored
    /// configuration takes precedence unless that Python was named.
    pub(super) async fn resolve(
        &mut self,
        client: &mut Client,
        namespace: &str,
        deadline: Deadline,
    ) -> Result<Option<PathBuf>, Failure> {
        let packages = self.packages.all()?;
        if self.profile.is_none() {
            let nodes = node_location(client, self.provider());
            self.resolved_code = self.code.resolve(nodes)?;
            if !packages.is_empty() {
                if nodes == NodeLocation::Kubernetes {
                    let what = "packages are installed for local processes only";
                    let hint = "`muster image create` builds an image with packages on Kubernetes";
                    return Err(Failure::new(Exit::Usage, what).hint(hint));
                }
                let named = self.image.take();
                let framework = self.framework().unwrap_or_default();
                let base = match named {
                    Some(named) => {
                        Some(python::resolve_base(client, self.provider(), framework, named).await?)
                    }
                    None => python::resolve(client, self.provider(), framework, None).await?,
                };
                let Built { template, python } =
                    packages::build(client, namespace, packages, base, deadline).await?;
                self.image_template = Some(template);
                return Ok(Some(python));
            }
        }
        if !self.is_of_framework() {
            return Ok(None);
        }
        let (framework, is_named) = (self.framework().unwrap_or_default(), self.image.is_some());
        let python = python::resolve(client, self.provider(), framework, self.image.clone()).await?;
        if is_named {
            self.image = python;
        } else {
            self.default_image = python;
        }
        Ok(None)
    }

    /// Returns the framework; `None` if a stored configuration is named, which may give another than the default.
    pub(super) fn framework(&self) -> Option<&str> {
        let has_config = !self.config.stored_config().is_empty();
        self.framework.as_deref().or((!has_config).then(|| self.default_framework()))
    }

    fn default_framework(&self) -> &str {
        if self.default_framework.is_empty() { Framework::Dask.as_str() } else { &self.default_framework }
    }

    /// Returns the framework that the user named with the flag or the variable.
    pub(super) fn named_framework(&self) -> Option<&str> {
        let by_variable = Some(self.default_framework.as_str())
            .filter(|named| !named.is_empty() && self.config.stored_config().is_empty());
        self.framework.as_deref().or(by_variable).filter(|_| self.profile.is_none())
    }

    /// Returns the interpreter that was named or found for the cluster, on this machine.
    pub(super) fn interpreter(&self) -> Option<&str> {
        self.image.as_deref().or(self.default_image.as_deref())
    }

    /// Builds a request with the given values only: the server adds stored configurations and defaults.
    pub(super) fn request(
        self,
        name: String,
        properties: Option<Map<String, Value>>,
    ) -> CreateClusterRequest {
        let stored_config = self.config.stored_config().to_owned();
        let workers = match self.group.as_slice() {
            [] => self.workers,
            [group] => Some(group.replicas),
            // Each group has its own number of workers.
            _ => None,
        };
        let config = self.profile.is_none().then(|| ClusterConfig {
            workers,
            default_framework: self.default_framework().to_owned(),
            default_image: self.default_image.clone().unwrap_or_default(),
            ..self.config.clone().into_config()
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
            machine_type,
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
            packages: _,
            code: _,
            label,
            resolved_code: Code { working_dir, variables },
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
            let (machine_group, machine_type) = machine_type.unwrap_or_default();
            groups.push(WorkerGroupSpec {
                group_name: DEFAULT_GROUP.to_owned(),
                // Without a number, the server takes that of the stored configuration.
                replicas: workers.unwrap_or(i32::from(!of_framework)),
                shape,
                machine_group,
                machine_type,
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
            working_dir,
            envs: variables,
            labels: label.into_iter().collect(),
            cluster_spec: Some(ClusterSpec {
                head_group_spec: head,
                worker_group_spec: groups,
                ..ClusterSpec::default()
            }),
            ..Cluster::default()
        }
    }
}

#[cfg(test)]
mod tests;
