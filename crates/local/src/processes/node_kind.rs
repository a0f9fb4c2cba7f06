//! The kinds of local nodes, by profile type.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_core::node::NodeRole;
use muster_core::profile::{Profile, ProfileType};
use muster_core::recipe::ClusterRecipe;
use muster_frameworks::{LocalFramework, ShutdownSignal};
use serde::Deserialize;
use serde_json::Value;

use crate::shim::{StopSignal, StopSpec};

/// The profile type whose nodes run any command.
pub(super) const LOCAL_PROCESS: &str = "local.process";

/// The version of all profile types of this provider.
const VERSION: &str = "1.0";

/// The kind of a node, by its profile type.
#[derive(Clone, Copy)]
pub(super) enum NodeKind {
    /// A head or worker of a framework.
    Framework(&'static dyn LocalFramework),
    /// Any command.
    Process,
}

/// The properties of a profile of [`LOCAL_PROCESS`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessRecipe {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// Additional environment variables.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// The working directory; by default a folder of the node.
    pub(super) working_dir: Option<String>,
    /// The signal that asks the process to end.
    #[serde(default)]
    stop_signal: StopSignalName,
    /// Time until the process is killed.
    #[serde(default = "default_grace_seconds")]
    stop_grace_seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum StopSignalName {
    #[default]
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGINT")]
    Int,
}

const fn default_grace_seconds() -> u32 {
    10
}

impl ProcessRecipe {
    pub(super) fn from_profile(profile: &Profile) -> Result<Self, String> {
        let recipe: Self = serde_json::from_value(Value::Object(profile.properties.clone()))
            .map_err(|error| format!("properties of {}: {error}", profile.kind))?;
        if recipe.command.first().is_none_or(String::is_empty) {
            return Err("command is empty: must be a list that begins with the program".to_owned());
        }
        Ok(recipe)
    }

    /// Returns the parts that the running process depends on.
    pub(super) fn into_launch_parts(self) -> (Vec<String>, BTreeMap<String, String>, Option<String>) {
        (self.command, self.env, self.working_dir)
    }
}

impl NodeKind {
    /// Returns the kind of nodes of a type; `None` if this provider does not support the type.
    pub(super) fn from_profile_type(kind: &ProfileType) -> Option<Self> {
        if kind.version != VERSION {
            return None;
        }
        if kind.name == LOCAL_PROCESS {
            return Some(Self::Process);
        }
        let named =
            |framework: &&dyn LocalFramework| kind.name == format!("{}.cluster", framework.framework());
        muster_frameworks::all_local().find(named).map(Self::Framework)
    }

    /// Returns the framework of a framework's node.
    pub(super) fn framework(self) -> Option<&'static dyn LocalFramework> {
        match self {
            Self::Framework(framework) => Some(framework),
            Self::Process => None,
        }
    }

    /// Checks that a profile has all required properties and no unknown ones.
    pub(super) fn check_profile(self, profile: &Profile) -> Result<(), String> {
        match self {
            Self::Framework(framework) => {
                let recipe = ClusterRecipe::from_request(&profile.properties)
                    .map_err(|error| format!("properties of {}: {error}", profile.kind))?;
                recipe.check_framework(framework.framework())?;
                recipe.spark.check_local()
            }
            Self::Process => ProcessRecipe::from_profile(profile).map(drop),
        }
    }

    /// Returns the signal and grace period for an orderly stop.
    pub(super) fn stop_spec(self, profile: &Profile, role: NodeRole) -> StopSpec {
        match self {
            Self::Framework(framework) => {
                let stop = framework.graceful_shutdown(role);
                let signal = match stop.signal {
                    ShutdownSignal::Interrupt => StopSignal::Int,
                    ShutdownSignal::Terminate => StopSignal::Term,
                };
                StopSpec { signal, grace: Duration::from_secs(stop.grace_seconds.into()) }
            }
            Self::Process => {
                let recipe = ProcessRecipe::from_profile(profile).ok();
                let grace =
                    recipe.as_ref().map_or_else(default_grace_seconds, |recipe| recipe.stop_grace_seconds);
                let signal = match recipe.map(|recipe| recipe.stop_signal).unwrap_or_default() {
                    StopSignalName::Term => StopSignal::Term,
                    StopSignalName::Int => StopSignal::Int,
                };
                StopSpec { signal, grace: Duration::from_secs(grace.into()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn profile(kind: &str, properties: &Value) -> Profile {
        Profile {
            kind: kind.parse().expect("a type"),
            properties: properties.as_object().cloned().expect("a map"),
            ..sample::profile()
        }
    }

    fn check(profile: &Profile) -> Result<(), String> {
        NodeKind::from_profile_type(&profile.kind).expect("a supported type").check_profile(profile)
    }

    #[rstest]
    #[case("dask.cluster-1.0", true)]
    #[case("local.process-1.0", true)]
    #[case("dask.cluster-2.0", false)]
    #[case("simulated.node-1.0", false)]
    fn types_are_known_with_their_version(#[case] name: &str, #[case] known: bool) {
        assert_eq!(NodeKind::from_profile_type(&name.parse().unwrap()).is_some(), known);
    }

    #[rstest]
    #[case("local.process-1.0", json!({"command": ["sleep", "9"]}), None)]
    #[case("local.process-1.0", json!({}), Some("missing field `command`"))]
    #[case("local.process-1.0", json!({"command": []}), Some("command is empty"))]
    #[case("local.process-1.0", json!({"command": ["x"], "stop_signal": "SIGKILL"}), Some("unknown variant `SIGKILL`"))]
    #[case("local.process-1.0", json!({"comand": ["x"]}), Some("unknown field `comand`"))]
    #[case("dask.cluster-1.0", json!({"image": "/venv"}), None)]
    #[case("dask.cluster-1.0", json!({"command": ["x"]}), Some("unknown field `command`"))]
    #[case("dask.cluster-1.0", json!({"worker": {"cpu": 0}}), Some("dask.cluster-1.0: cpu is 0: must be greater than 0"))]
    #[case("dask.cluster-1.0", json!({"head": {"memory": 1}}), Some("memory is 1: must be at least 1Mi"))]
    fn a_profile_has_all_required_properties_and_no_unknown_ones(
        #[case] kind: &str,
        #[case] properties: Value,
        #[case] wrong: Option<&str>,
    ) {
        let checked = check(&profile(kind, &properties));
        match wrong {
            None => assert_eq!(checked, Ok(())),
            Some(text) => {
                let error = checked.unwrap_err();
                assert!(error.contains(text), "{error}");
            }
        }
    }

    #[test]
    fn a_process_is_stopped_as_its_profile_says() {
        let properties = json!({"command": ["x"], "stop_signal": "SIGINT", "stop_grace_seconds": 3});
        let stop = NodeKind::Process.stop_spec(&profile("local.process-1.0", &properties), NodeRole::Worker);
        assert_eq!(stop, StopSpec { signal: StopSignal::Int, grace: Duration::from_secs(3) });
        let stop = NodeKind::Process
            .stop_spec(&profile("local.process-1.0", &json!({"command": ["x"]})), NodeRole::Worker);
        assert_eq!(stop, StopSpec::with_grace(Duration::from_secs(10)));
    }
}
