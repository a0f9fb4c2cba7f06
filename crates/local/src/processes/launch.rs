//! What a node is started with.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole};
use muster_core::profile::Profile;
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use muster_engine::ports::provider::{ClusterTarget, FencedCall, ProviderError};
use muster_frameworks::{LocalFramework, Seat as Place};
use tokio::sync::Mutex;

use super::capacity;
use super::devices;
use super::kind::{Kind, ProcessRecipe};
use super::place;
use super::seat::Seat;
use super::{Inner, on_disk};
use crate::environments::{Environment, Missing, Unmet};
use crate::files;
use crate::shim::{Launch, NodeFolder};

/// What a node inherits of the server's environment; everything else stays with the server.
const INHERITED: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// What a node inherits if its name begins so.
const INHERITED_PREFIX: &str = "LC_";

/// The variable that names the cluster to whatever runs in it.
const CLUSTER: &str = "MUSTER_CLUSTER";

/// Has Python write its log as it goes.
const PYTHON_UNBUFFERED: &str = "PYTHONUNBUFFERED";

fn inherited() -> BTreeMap<String, String> {
    let wanted = |(name, _): &(String, String)| {
        INHERITED.contains(&name.as_str()) || name.starts_with(INHERITED_PREFIX)
    };
    // A variable that is no text would fail every start.
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(wanted).collect()
}

fn invalid(why: String) -> ProviderError {
    ProviderError::permanent("InvalidProfile", why)
}

/// How the nodes of a role are made.
pub(super) fn recipe(call: FencedCall<'_>, node: &Node) -> Result<NodeRecipe, ProviderError> {
    let recipe = ClusterRecipe::of_cluster(call.cluster, call.profile).map_err(invalid)?;
    Ok(match node.role {
        NodeRole::Head => recipe.head(),
        NodeRole::Worker => recipe.workers(node.group.as_deref().and_then(|group| call.cluster.group(group))),
        NodeRole::Unknown(_) => return Err(unknown_role(node)),
    })
}

/// A newer version stored the node, and only that knows how it is started.
pub(super) fn unknown_role(node: &Node) -> ProviderError {
    let why = format!("node '{}' has the role '{}', which this version does not know", node.name, node.role);
    ProviderError::permanent("UnknownRole", why)
}

/// Whether a node was started with something else than its recipe says now.
pub(super) fn is_outdated(
    call: FencedCall<'_>,
    node: &Node,
    before: &Profile,
) -> Result<bool, ProviderError> {
    if let Some(Kind::Process) = Kind::of(&call.profile.kind) {
        let started_with = |profile| ProcessRecipe::of(profile).map(ProcessRecipe::start).map_err(invalid);
        return Ok(started_with(before)? != started_with(call.profile)?);
    }
    Ok(recipe(FencedCall { profile: before, ..call }, node)? != recipe(call, node)?)
}

/// The interpreters that were found for what was asked for: looking takes a process each time it is in vain.
#[derive(Default)]
pub(super) struct Pythons {
    found: Mutex<HashMap<Option<String>, Installed>>,
}

impl Pythons {
    async fn get(
        &self,
        recipe: &NodeRecipe,
        find: impl AsyncFnOnce() -> Result<Installed, ProviderError>,
    ) -> Result<Installed, ProviderError> {
        // Whoever comes while one looks waits here for what that finds.
        let mut found = self.found.lock().await;
        if let Some(installed) = found.get(&recipe.image) {
            return Ok(installed.clone());
        }
        let installed = find().await?;
        found.insert(recipe.image.clone(), installed.clone());
        Ok(installed)
    }
}

/// A framework on this machine, with everything that it needs.
#[derive(Debug, Clone)]
pub(super) struct Installed {
    /// The interpreter that has it.
    pub(super) python: PathBuf,
    /// The folder of its package.
    package: PathBuf,
    /// What its nodes and clients need in their environment beside what the framework says.
    pub(super) variables: BTreeMap<String, String>,
}

impl Inner {
    /// Says so if the framework of a profile is not installed.
    pub(super) async fn has_framework(&self, profile: &Profile) -> Result<(), ProviderError> {
        let Some(framework) = Kind::of(&profile.kind).and_then(Kind::framework) else { return Ok(()) };
        let recipe = ClusterRecipe::from_stored(&profile.properties).map_err(invalid)?;
        self.installed(framework, &recipe.head()).await.map(drop)
    }

    /// Says so if the framework is not installed where an update of a cluster wants its nodes to run.
    pub(super) async fn has_framework_after(
        &self,
        ClusterTarget { cluster, profile }: ClusterTarget<'_>,
        before: &Cluster,
    ) -> Result<(), ProviderError> {
        let Some(framework) = Kind::of(&profile.kind).and_then(Kind::framework) else { return Ok(()) };
        let recipes = |cluster: &Cluster| {
            let recipe = ClusterRecipe::of_cluster(cluster, profile).map_err(invalid)?;
            let groups = cluster.groups.iter().map(|group| recipe.workers(Some(group)));
            Ok::<_, ProviderError>(std::iter::once(recipe.head()).chain(groups).collect::<Vec<_>>())
        };
        let present: Vec<_> = recipes(before)?.into_iter().map(|recipe| recipe.image).collect();
        for recipe in recipes(cluster)?.into_iter().filter(|recipe| !present.contains(&recipe.image)) {
            self.installed(framework, &recipe).await?;
        }
        Ok(())
    }

    /// Makes the folder for sockets of a cluster's own programs, empty but for what workers have there that outlive
    /// their head. It is a link: what else they write there may be large, and the runtime folder is often in memory.
    pub(super) fn make_short(&self, cluster: ClusterId) -> Result<(), ProviderError> {
        let failed = |error: std::io::Error| on_disk("the folder for sockets cannot be made", &error);
        let (short, behind) = (self.short(cluster)?, self.places.behind_short(cluster));
        files::write(&self.places.short_file(cluster), &short).map_err(failed)?;
        files::make_folder(&behind).map_err(failed)?;
        files::remove_all_but(&behind, place::TEMPORARY).map_err(failed)?;
        files::make_link(&short, &behind).map_err(failed)
    }

    /// Makes the folder, empty, in which a node has what it needs for a while.
    pub(super) fn make_temporary(&self, cluster: ClusterId, node: &Node) -> Result<(), ProviderError> {
        files::make_empty_folder(&self.places.temporary(cluster, node))
            .map_err(|error| on_disk("the node's temporary folder cannot be made", &error))
    }

    /// The folder for sockets of a cluster's own programs: where it was made, also if the runtime folder is another
    /// by now.
    pub(super) fn short(&self, cluster: ClusterId) -> Result<PathBuf, ProviderError> {
        let failed = |error: std::io::Error| on_disk("the folder for sockets cannot be used", &error);
        let made = place::read(&self.places.short_file(cluster));
        made.map_or_else(|| self.shims.runtime().short(cluster).map_err(failed), Ok)
    }

    /// Where the framework is: in the environment that is asked for, or in ours.
    pub(super) async fn installed(
        &self,
        framework: &dyn LocalFramework,
        recipe: &NodeRecipe,
    ) -> Result<Installed, ProviderError> {
        if let (Some(template), Some(image)) = (&recipe.image_template, &recipe.image)
            && !Path::new(image).exists()
        {
            // Another environment would not have what is in it.
            let message = format!("the image of template '{template}' is not there: {image}");
            return Err(ProviderError::permanent("ImageMissing", message));
        }
        let unmet = |unmet: Unmet| ProviderError::permanent("RequirementMissing", unmet.to_string());
        let needed = self.environments.require(framework).await.map_err(unmet)?;
        let text = |(name, home): (&str, PathBuf)| (name.to_owned(), home.to_string_lossy().into_owned());
        let variables = needed.into_iter().map(text).collect();
        let found = self.environments.find(framework, recipe.image.as_deref().map(Path::new)).await;
        let missing = |missing: Missing| ProviderError::permanent("FrameworkMissing", missing.to_string());
        let Environment { python, package, .. } = found.map_err(missing)?;
        Ok(Installed { python, package, variables })
    }

    /// The command, environment and folder of a node of any kind.
    pub(super) async fn launch(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        seat: &Seat,
        pythons: &Pythons,
    ) -> Result<Launch, ProviderError> {
        match Kind::of(&call.profile.kind) {
            Some(Kind::Framework(framework)) => {
                self.framework_launch(framework, call, node, folder, seat, pythons).await
            }
            Some(Kind::Process) => self.process_launch(call, folder),
            None => Err(invalid(format!("no local process is a {}", call.profile.kind))),
        }
    }

    async fn framework_launch(
        &self,
        framework: &'static dyn LocalFramework,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        seat: &Seat,
        pythons: &Pythons,
    ) -> Result<Launch, ProviderError> {
        let recipe = recipe(call, node)?;
        let installed = pythons.get(&recipe, || self.installed(framework, &recipe)).await?;
        let Installed { python, package, variables } = installed;
        let work = place::work(folder);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let cluster = call.cluster.id;
        let (kept, short) = (self.places.kept(cluster), self.short(cluster)?);
        let (secret, shape) = (self.secret(cluster)?, recipe.shape());
        let machine = capacity::of_machine(self.settings.gpus);
        let at = Place {
            name: &seat.name,
            python: &text(&python),
            package: &text(&package),
            folder: &text(&work),
            kept: &text(&kept),
            short: &text(&short),
            shape: &shape,
            machine: &machine,
            secret: &secret,
        };
        let mut launch = match node.role {
            NodeRole::Head => framework.head(at, &self.ports(cluster)),
            NodeRole::Worker => framework.worker(at, &self.head(cluster)?),
            NodeRole::Unknown(_) => return Err(unknown_role(node)),
        };
        launch.command.extend(recipe.args);
        // By its short name: programs put sockets there, too.
        let temporary = place::temporary(&short, node);
        let environment = in_venv(&python)
            .chain([("TMPDIR".to_owned(), text(&temporary))])
            .chain(variables)
            .chain(launch.environment)
            .chain(visible_devices(seat))
            .chain(recipe.env)
            .chain([(CLUSTER.to_owned(), call.cluster.name.clone())])
            .collect();
        Ok(self.with(call, launch.command, environment, work))
    }

    fn process_launch(&self, call: FencedCall<'_>, folder: &NodeFolder) -> Result<Launch, ProviderError> {
        let recipe = ProcessRecipe::of(call.profile).map_err(invalid)?;
        let cluster = (CLUSTER.to_owned(), call.cluster.name.clone());
        let environment = inherited().into_iter().chain(recipe.env).chain([cluster]).collect();
        let work = recipe.working_dir.map_or_else(|| place::work(folder), PathBuf::from);
        Ok(self.with(call, recipe.command, environment, work))
    }

    fn with(
        &self,
        call: FencedCall<'_>,
        command: Vec<String>,
        environment: BTreeMap<String, String>,
        working_folder: PathBuf,
    ) -> Launch {
        let (generation, log) = (call.fence, self.settings.log);
        Launch { generation, command, environment, working_folder, log, oom_counter: None }
    }
}

/// Has a node see its own accelerators only.
fn visible_devices(seat: &Seat) -> Option<(String, String)> {
    let devices: Vec<String> = seat.gpus.iter().map(ToString::to_string).collect();
    (!devices.is_empty()).then(|| (devices::VISIBLE.to_owned(), devices.join(",")))
}

/// What a program has in its environment that runs in a virtual one.
pub(super) fn in_venv(python: &Path) -> impl Iterator<Item = (String, String)> {
    inherited().into_iter().chain(venv(python))
}

/// What an active virtual environment looks like to programs that are started from it.
fn venv(python: &Path) -> Vec<(String, String)> {
    let unbuffered = (PYTHON_UNBUFFERED.to_owned(), "1".to_owned());
    let Some(programs) = python.parent() else { return vec![unbuffered] };
    let path = std::env::var("PATH").unwrap_or_default();
    vec![unbuffered, ("PATH".to_owned(), format!("{}:{path}", programs.display()))]
}
