//! Builds the launch of a node: command, environment and working directory.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole};
use muster_core::profile::Profile;
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use muster_core::software::SoftwareVersions;
use muster_core::unknown_fields::UnknownFields;
use muster_engine::ports::provider::{ClusterTarget, FencedCall, ProviderError};
use muster_frameworks::{LaunchContext, LocalFramework};
use tokio::sync::Mutex;

use super::capacity;
use super::node_kind::{NodeKind, ProcessRecipe};
use super::node_record::NodeRecord;
use super::paths;
use super::{ProcessHost, on_disk};
use crate::environments::{Environment, FrameworkNotFound, MODULE_PATH_VARIABLE, UnmetRequirement};
use crate::files;
use crate::shim::{LaunchSpec, NodeFolder};

/// Variables that a node inherits from the server; it inherits no others.
const INHERITED: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Prefix of further inherited variables, for locales.
const INHERITED_PREFIX: &str = "LC_";

/// The variable with the name of the cluster, for programs that run in it.
const CLUSTER: &str = "MUSTER_CLUSTER";

/// Makes Python write its output at once instead of buffering it.
const PYTHON_UNBUFFERED: &str = "PYTHONUNBUFFERED";

pub(super) fn inherited() -> BTreeMap<String, String> {
    let wanted = |(name, _): &(String, String)| {
        INHERITED.contains(&name.as_str()) || name.starts_with(INHERITED_PREFIX)
    };
    // Variables that are not UTF-8 are skipped, since they would make every start fail.
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(wanted).collect()
}

/// Returns the message for a profile type without local nodes.
pub(super) fn unsupported_type(profile: &Profile) -> String {
    format!("profile type '{}' is not supported by the provider 'local'", profile.kind)
}

fn invalid(why: String) -> ProviderError {
    ProviderError::permanent("InvalidProfile", why)
}

/// Returns the recipe of a node, by its role and group.
pub(super) fn node_recipe(call: FencedCall<'_>, node: &Node) -> Result<NodeRecipe, ProviderError> {
    let recipe = ClusterRecipe::of_cluster(call.cluster, call.profile).map_err(invalid)?;
    Ok(match node.role {
        NodeRole::Head => recipe.head(),
        NodeRole::Worker => recipe.workers(node.group.as_deref().and_then(|group| call.cluster.group(group))),
        NodeRole::Unknown(_) => return Err(unknown_role(node)),
    })
}

/// Returns the error for a role that only a newer version supports, which stored the node.
pub(super) fn unknown_role(node: &Node) -> ProviderError {
    let why =
        format!("node '{}' has the role '{}', which this version does not support", node.name, node.role);
    ProviderError::permanent("UnknownRole", why)
}

/// Returns true if a node was started from a recipe that differs from the current one.
pub(super) fn is_outdated(
    call: FencedCall<'_>,
    node: &Node,
    before: &Profile,
) -> Result<bool, ProviderError> {
    if let Some(NodeKind::Process) = NodeKind::from_profile_type(&call.profile.kind) {
        let started_with = |profile| {
            ProcessRecipe::from_profile(profile).map(ProcessRecipe::into_launch_parts).map_err(invalid)
        };
        return Ok(started_with(before)? != started_with(call.profile)?);
    }
    Ok(node_recipe(FencedCall { profile: before, ..call }, node)? != node_recipe(call, node)?)
}

/// Caches the framework environments of one batch of starts, so that a batch probes the interpreters only once.
#[derive(Default)]
pub(super) struct FrameworkCache {
    found: Mutex<HashMap<Option<String>, InstalledFramework>>,
}

impl FrameworkCache {
    async fn get(
        &self,
        recipe: &NodeRecipe,
        find: impl AsyncFnOnce() -> Result<InstalledFramework, ProviderError>,
    ) -> Result<InstalledFramework, ProviderError> {
        // Holding the lock during the search makes concurrent callers wait for its result.
        let mut found = self.found.lock().await;
        if let Some(installed) = found.get(&recipe.image) {
            return Ok(installed.clone());
        }
        let installed = find().await?;
        found.insert(recipe.image.clone(), installed.clone());
        Ok(installed)
    }
}

/// An environment that has the framework, with the variables that it needs.
#[derive(Debug, Clone)]
pub(super) struct InstalledFramework {
    /// The interpreter of the environment.
    pub(super) python: PathBuf,
    /// The folder of the framework's package.
    package: PathBuf,
    /// The versions of Python and of the framework.
    versions: SoftwareVersions,
    /// Variables for programs that the framework requires, such as `JAVA_HOME`.
    pub(super) variables: BTreeMap<String, String>,
}

impl ProcessHost {
    /// Checks that the framework of a profile is installed and that its working directory exists. The images of
    /// templates are known only with the cluster: `check_image` checks them.
    pub(super) async fn check_framework(&self, profile: &Profile) -> Result<(), ProviderError> {
        let Some(framework) = NodeKind::from_profile_type(&profile.kind).and_then(NodeKind::framework) else {
            return Ok(());
        };
        let recipe = ClusterRecipe::from_stored(&profile.properties).map_err(invalid)?;
        working_dir(&recipe)?;
        let head = recipe.head();
        if head.image_template.is_some() {
            return self.find_requirement(framework).await.map(drop);
        }
        self.find_framework(framework, &head).await.map(drop)
    }

    /// Checks that the framework is in the image of the template that a new cluster names, unless it is being built.
    pub(super) async fn check_image(
        &self,
        cluster: &Cluster,
        profile: &Profile,
    ) -> Result<(), ProviderError> {
        let Some(framework) = NodeKind::from_profile_type(&profile.kind).and_then(NodeKind::framework) else {
            return Ok(());
        };
        let head = ClusterRecipe::of_cluster(cluster, profile).map_err(invalid)?.head();
        let is_built = head.image.as_ref().is_some_and(|image| Path::new(image).exists());
        if head.image_template.is_none() || !is_built {
            return Ok(());
        }
        self.find_framework(framework, &head).await.map(drop)
    }

    async fn find_requirement(
        &self,
        framework: &dyn LocalFramework,
    ) -> Result<Option<(&'static str, PathBuf)>, ProviderError> {
        let unmet =
            |unmet: UnmetRequirement| ProviderError::permanent("RequirementMissing", unmet.to_string());
        self.environments.find_requirement(framework).await.map_err(unmet)
    }

    /// Checks that the framework is installed in the environments that an update of a cluster adds.
    pub(super) async fn check_framework_after_update(
        &self,
        ClusterTarget { cluster, profile }: ClusterTarget<'_>,
        before: &Cluster,
    ) -> Result<(), ProviderError> {
        let Some(framework) = NodeKind::from_profile_type(&profile.kind).and_then(NodeKind::framework) else {
            return Ok(());
        };
        let recipes = |cluster: &Cluster| {
            let recipe = ClusterRecipe::of_cluster(cluster, profile).map_err(invalid)?;
            let groups = cluster.groups.iter().map(|group| recipe.workers(Some(group)));
            Ok::<_, ProviderError>(std::iter::once(recipe.head()).chain(groups).collect::<Vec<_>>())
        };
        let present: Vec<_> = recipes(before)?.into_iter().map(|recipe| recipe.image).collect();
        for recipe in recipes(cluster)?.into_iter().filter(|recipe| !present.contains(&recipe.image)) {
            self.find_framework(framework, &recipe).await?;
        }
        Ok(())
    }

    /// Creates the cluster's folder for sockets. Removes old content, except temporary files of workers, which may
    /// outlive their head. The short path is a link, since the runtime folder is often in memory and the content may be
    /// large.
    pub(super) fn make_short_folder(&self, cluster: ClusterId) -> Result<(), ProviderError> {
        let failed = |error: std::io::Error| on_disk("the folder for sockets cannot be created", &error);
        let (short, target) = (self.short_folder(cluster)?, self.paths.short_target(cluster));
        files::write(&self.paths.short_file(cluster), &short).map_err(failed)?;
        files::make_folder(&target).map_err(failed)?;
        files::remove_all_but(&target, paths::TEMPORARY).map_err(failed)?;
        files::make_link(&short, &target).map_err(failed)
    }

    /// Creates the empty folder for temporary files of a node.
    pub(super) fn make_temporary_folder(&self, cluster: ClusterId, node: &Node) -> Result<(), ProviderError> {
        files::make_empty_folder(&self.paths.temporary(cluster, node))
            .map_err(|error| on_disk("the node's temporary folder cannot be created", &error))
    }

    /// Returns the short path of the cluster's folder for sockets. The recorded path wins, since the runtime folder of
    /// the server may have changed.
    pub(super) fn short_folder(&self, cluster: ClusterId) -> Result<PathBuf, ProviderError> {
        let failed = |error: std::io::Error| on_disk("the folder for sockets cannot be used", &error);
        let recorded = paths::read_json(&self.paths.short_file(cluster));
        recorded.map_or_else(|| self.shims.runtime().short(cluster).map_err(failed), Ok)
    }

    /// Finds the framework in the requested environment, or else in the first one that has it.
    pub(super) async fn find_framework(
        &self,
        framework: &dyn LocalFramework,
        recipe: &NodeRecipe,
    ) -> Result<InstalledFramework, ProviderError> {
        if let (Some(template), Some(image)) = (&recipe.image_template, &recipe.image)
            && !Path::new(image).exists()
        {
            // No fallback: another environment would lack the packages of the image.
            let message =
                format!("the image of template '{template}' is missing ({image}): rebuild the template");
            return Err(ProviderError::permanent("ImageMissing", message));
        }
        let required = self.find_requirement(framework).await?;
        let text = |(name, home): (&str, PathBuf)| (name.to_owned(), home.to_string_lossy().into_owned());
        let variables = required.into_iter().map(text).collect();
        let found = self.environments.find(framework, recipe.image.as_deref().map(Path::new)).await;
        let missing =
            |missing: FrameworkNotFound| ProviderError::permanent("FrameworkMissing", missing.to_string());
        let Environment { python, package, version, python_version, .. } = found.map_err(missing)?;
        let unknown = UnknownFields::default();
        let versions = SoftwareVersions { python: python_version, framework: version, unknown };
        Ok(InstalledFramework { python, package, versions, variables })
    }

    /// Records the versions of Python and of the framework that the head is about to run.
    pub(super) async fn record_versions(
        &self,
        framework: &'static dyn LocalFramework,
        call: FencedCall<'_>,
        head: &Node,
        cache: &FrameworkCache,
    ) -> Result<(), ProviderError> {
        let recipe = node_recipe(call, head)?;
        let installed = cache.get(&recipe, || self.find_framework(framework, &recipe)).await?;
        files::write(&self.paths.versions_file(call.cluster.id), &installed.versions)
            .map_err(|error| on_disk("the versions cannot be recorded", &error))
    }

    /// Builds the launch of a node of any kind.
    pub(super) async fn launch(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        record: &NodeRecord,
        cache: &FrameworkCache,
    ) -> Result<LaunchSpec, ProviderError> {
        match NodeKind::from_profile_type(&call.profile.kind) {
            Some(NodeKind::Framework(framework)) => {
                self.framework_launch(framework, call, node, folder, record, cache).await
            }
            Some(NodeKind::Process) => self.process_launch(call, folder),
            None => Err(invalid(unsupported_type(call.profile))),
        }
    }

    async fn framework_launch(
        &self,
        framework: &'static dyn LocalFramework,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        record: &NodeRecord,
        cache: &FrameworkCache,
    ) -> Result<LaunchSpec, ProviderError> {
        let cluster_recipe = ClusterRecipe::of_cluster(call.cluster, call.profile).map_err(invalid)?;
        let working_dir = working_dir(&cluster_recipe)?;
        let recipe = node_recipe(call, node)?;
        let installed = cache.get(&recipe, || self.find_framework(framework, &recipe)).await?;
        let InstalledFramework { python, package, variables, versions: _ } = installed;
        let work = paths::working_folder(folder);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let cluster = call.cluster.id;
        let (kept, short) = (self.paths.preserved(cluster), self.short_folder(cluster)?);
        let (secret, shape) = (self.secret(cluster)?, recipe.shape());
        let machine = capacity::of_machine(self.settings.gpus);
        let context = LaunchContext {
            name: &record.name,
            python: &text(&python),
            package: &text(&package),
            node_folder: &text(&work),
            cluster_folder: &text(&kept),
            socket_folder: &text(&short),
            shape: &shape,
            machine: &machine,
            secret: &secret,
        };
        let mut launch = match node.role {
            NodeRole::Head => framework.head_process(context, &self.head_ports(cluster)),
            NodeRole::Worker => framework.worker_process(context, &self.known_head(cluster)?),
            NodeRole::Unknown(_) => return Err(unknown_role(node)),
        };
        for (file, content) in &launch.files {
            let written = tokio::fs::write(file, content).await;
            written.map_err(|error| on_disk("the node's folder cannot be used", &error))?;
        }
        launch.command.extend(recipe.args);
        // The short path is used, since programs create sockets in their temporary folder.
        let temporary = paths::temporary(&short, node);
        let environment = in_venv(&python)
            .chain([("TMPDIR".to_owned(), text(&temporary))])
            .chain(variables)
            .chain(launch.environment)
            .chain(self.device_variables(record))
            .chain(recipe.env)
            .chain([(CLUSTER.to_owned(), call.cluster.name.clone())]);
        let mut environment: BTreeMap<String, String> = environment.collect();
        if let Some(folder) = &working_dir {
            add_module_folder(&mut environment, &text(folder));
        }
        Ok(self.launch_spec(call, launch.command, environment, working_dir.unwrap_or(work)))
    }

    fn process_launch(&self, call: FencedCall<'_>, folder: &NodeFolder) -> Result<LaunchSpec, ProviderError> {
        let recipe = ProcessRecipe::from_profile(call.profile).map_err(invalid)?;
        let cluster = (CLUSTER.to_owned(), call.cluster.name.clone());
        let environment = inherited().into_iter().chain(recipe.env).chain([cluster]).collect();
        let work = recipe.working_dir.map_or_else(|| paths::working_folder(folder), PathBuf::from);
        Ok(self.launch_spec(call, recipe.command, environment, work))
    }

    fn launch_spec(
        &self,
        call: FencedCall<'_>,
        command: Vec<String>,
        environment: BTreeMap<String, String>,
        working_folder: PathBuf,
    ) -> LaunchSpec {
        let (generation, log) = (call.fence, self.settings.log);
        LaunchSpec { generation, command, environment, working_folder, log, oom_counter: None }
    }
}

/// Returns the working directory of a recipe if it has one, and checks that it exists.
fn working_dir(recipe: &ClusterRecipe) -> Result<Option<PathBuf>, ProviderError> {
    let Some(folder) = recipe.working_dir.as_ref().map(PathBuf::from) else { return Ok(None) };
    if folder.is_dir() {
        return Ok(Some(folder));
    }
    let message = format!("the working directory '{}' does not exist: create it", folder.display());
    Err(ProviderError::permanent("WorkingDirectoryMissing", message))
}

/// Prepends a folder to the module path of Python.
fn add_module_folder(environment: &mut BTreeMap<String, String>, folder: &str) {
    let path = match environment.get(MODULE_PATH_VARIABLE).filter(|path| !path.is_empty()) {
        Some(others) => format!("{folder}:{others}"),
        None => folder.to_owned(),
    };
    environment.insert(MODULE_PATH_VARIABLE.to_owned(), path);
}

/// Returns the base environment of a program of a virtual environment.
pub(super) fn in_venv(python: &Path) -> impl Iterator<Item = (String, String)> {
    inherited().into_iter().chain(venv_variables(python))
}

/// Returns the variables of an activated virtual environment.
fn venv_variables(python: &Path) -> Vec<(String, String)> {
    let unbuffered = (PYTHON_UNBUFFERED.to_owned(), "1".to_owned());
    let Some(programs) = python.parent() else { return vec![unbuffered] };
    let path = std::env::var("PATH").unwrap_or_default();
    vec![unbuffered, ("PATH".to_owned(), format!("{}:{path}", programs.display()))]
}
