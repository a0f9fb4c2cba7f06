//! What a node is started with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_core::cluster::{Cluster, DEFAULT_GROUP, WorkerGroup};
use muster_core::node::{Node, NodeRole};
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use muster_engine::provider::{Call, ProviderError};
use muster_frameworks::{Endpoints, LocalFramework, Ports, Seat as Place};

use super::Inner;
use super::kind::{Kind, ProcessRecipe};
use super::place;
use super::seat::Seat;
use crate::shim::{Launch, NodeFolder};

/// What a node inherits of the server's environment; everything else stays with the server.
const INHERITED: &[&str] = &["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// What a node inherits if its name begins so.
const INHERITED_PREFIX: &str = "LC_";

/// The variable that names the cluster to whatever runs in it.
const CLUSTER: &str = "MUSTER_CLUSTER";

/// A folder in which Python finds its own programs, from its interpreter.
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
pub(super) fn recipe(call: Call<'_>, node: &Node) -> Result<NodeRecipe, ProviderError> {
    let recipe = ClusterRecipe::of(&call.profile.properties).map_err(invalid)?;
    Ok(match node.role {
        NodeRole::Head => recipe.head(),
        NodeRole::Worker => recipe.workers(group(call.cluster, node).unwrap_or(&no_group())),
    })
}

fn group<'c>(cluster: &'c Cluster, node: &Node) -> Option<&'c WorkerGroup> {
    cluster.group(node.group.as_deref()?)
}

/// What a node is made from whose group is gone.
fn no_group() -> WorkerGroup {
    WorkerGroup {
        name: DEFAULT_GROUP.to_owned(),
        desired: 0,
        min: 0,
        max: None,
        shape: muster_core::shape::Shape::default(),
        spec: serde_json::Map::new(),
    }
}

impl Inner {
    /// The command, environment and folder of a node of any kind.
    pub(super) async fn launch(
        &self,
        call: Call<'_>,
        node: &Node,
        folder: &NodeFolder,
        seat: &Seat,
    ) -> Result<Launch, ProviderError> {
        match Kind::of(&call.profile.kind) {
            Some(Kind::Framework(framework)) => {
                self.framework_launch(framework, call, node, folder, seat).await
            }
            Some(Kind::Process) => self.process_launch(call, folder),
            None => Err(invalid(format!("no local process is a {}", call.profile.kind))),
        }
    }

    async fn framework_launch(
        &self,
        framework: &'static dyn LocalFramework,
        call: Call<'_>,
        node: &Node,
        folder: &NodeFolder,
        seat: &Seat,
    ) -> Result<Launch, ProviderError> {
        let recipe = recipe(call, node)?;
        let asked = recipe.image.as_deref().map(PathBuf::from);
        let python = self.environments.find(framework, asked.as_deref()).await;
        let python = python
            .map_err(|missing| ProviderError::permanent("FrameworkMissing", missing.to_string()))?
            .python;
        let work = place::work(folder);
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let (python_text, work_text, shape) = (text(&python), text(&work), recipe.shape());
        let at = Place { name: &seat.name, python: &python_text, folder: &work_text, shape: &shape };
        let mut launch = match node.role {
            NodeRole::Head => framework.head(at, &self.ports(call)),
            NodeRole::Worker => framework.worker(at, &self.head(call)?),
        };
        launch.command.extend(recipe.args);
        let environment = inherited()
            .into_iter()
            .chain(venv(&python))
            .chain(launch.environment)
            .chain(recipe.env)
            .chain([(CLUSTER.to_owned(), call.cluster.name.clone())])
            .collect();
        Ok(self.with(call, launch.command, environment, work))
    }

    fn process_launch(&self, call: Call<'_>, folder: &NodeFolder) -> Result<Launch, ProviderError> {
        let recipe = ProcessRecipe::of(call.profile).map_err(invalid)?;
        let cluster = (CLUSTER.to_owned(), call.cluster.name.clone());
        let environment = inherited().into_iter().chain(recipe.env).chain([cluster]).collect();
        let work = recipe.working_dir.map_or_else(|| place::work(folder), PathBuf::from);
        Ok(self.with(call, recipe.command, environment, work))
    }

    fn with(
        &self,
        call: Call<'_>,
        command: Vec<String>,
        environment: BTreeMap<String, String>,
        working_folder: PathBuf,
    ) -> Launch {
        let (generation, log) = (call.fence, self.settings.log);
        Launch { generation, command, environment, working_folder, log, oom_counter: None }
    }

    /// The ports that the head had before.
    fn ports(&self, call: Call<'_>) -> Ports {
        super::head::Head::of(&self.places, call.cluster.id).map(|head| head.ports).unwrap_or_default()
    }

    /// Where the head answers.
    pub(super) fn head(&self, call: Call<'_>) -> Result<Endpoints, ProviderError> {
        let known = super::head::Head::of(&self.places, call.cluster.id);
        let unknown = || ProviderError::transient("NoHead", "its head does not answer yet");
        known.map(|head| head.endpoints()).ok_or_else(unknown)
    }
}

/// What an active virtual environment looks like to programs that are started from it.
fn venv(python: &std::path::Path) -> Vec<(String, String)> {
    let unbuffered = (PYTHON_UNBUFFERED.to_owned(), "1".to_owned());
    let Some(programs) = python.parent() else { return vec![unbuffered] };
    let path = std::env::var("PATH").unwrap_or_default();
    vec![unbuffered, ("PATH".to_owned(), format!("{}:{path}", programs.display()))]
}
