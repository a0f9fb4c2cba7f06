//! What a node of a profile type is.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_core::node::NodeRole;
use muster_core::profile::{Profile, ProfileType};
use muster_core::recipe::ClusterRecipe;
use muster_frameworks::{LocalFramework, Signal};
use serde::Deserialize;
use serde_json::Value;

use crate::shim::{Stop, StopSignal};

/// The type whose nodes are any command.
pub(super) const LOCAL_PROCESS: &str = "local.process";

/// The version of all types here.
const VERSION: &str = "1.0";

/// What a node of a profile type is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Head and workers of a framework.
    Framework(&'static dyn LocalFramework),
    /// Any command.
    Process,
}

/// What a profile of [`LOCAL_PROCESS`] says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessRecipe {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// What is added to its environment.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Where it runs; otherwise in a folder of its own.
    pub(super) working_dir: Option<String>,
    /// What it is told when it should end.
    #[serde(default)]
    stop_signal: StopWord,
    /// How long it may take to end.
    #[serde(default = "ten")]
    stop_grace_seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
enum StopWord {
    #[default]
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGINT")]
    Int,
}

const fn ten() -> u32 {
    10
}

impl ProcessRecipe {
    pub(super) fn of(profile: &Profile) -> Result<Self, String> {
        let recipe: Self = serde_json::from_value(Value::Object(profile.properties.clone()))
            .map_err(|error| format!("properties of {}: {error}", profile.kind))?;
        if recipe.command.first().is_none_or(String::is_empty) {
            return Err("command is empty: a list is expected, the program first".to_owned());
        }
        Ok(recipe)
    }

    /// The part that counts when it is started.
    pub(super) fn start(self) -> (Vec<String>, BTreeMap<String, String>, Option<String>) {
        (self.command, self.env, self.working_dir)
    }
}

impl Kind {
    /// What nodes of this type are; nothing if they are none of ours.
    pub(super) fn of(kind: &ProfileType) -> Option<Self> {
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

    /// The framework, if it is one.
    pub(super) fn framework(self) -> Option<&'static dyn LocalFramework> {
        match self {
            Self::Framework(framework) => Some(framework),
            Self::Process => None,
        }
    }

    /// Whether a profile says what it must and nothing else.
    pub(super) fn check(self, profile: &Profile) -> Result<(), String> {
        match self {
            Self::Framework(framework) => {
                let recipe = ClusterRecipe::from_request(&profile.properties)
                    .map_err(|error| format!("properties of {}: {error}", profile.kind))?;
                recipe.check_framework(framework.framework())?;
                recipe.spark.check_local()
            }
            Self::Process => ProcessRecipe::of(profile).map(drop),
        }
    }

    /// How a node is stopped in order.
    pub(super) fn stop(self, profile: &Profile, role: NodeRole) -> Stop {
        match self {
            Self::Framework(framework) => {
                let stop = framework.stop(role);
                let signal = match stop.signal {
                    Signal::Interrupt => StopSignal::Int,
                    Signal::Terminate => StopSignal::Term,
                };
                Stop { signal, grace: Duration::from_secs(stop.grace.into()) }
            }
            Self::Process => {
                let recipe = ProcessRecipe::of(profile).ok();
                let grace = recipe.as_ref().map_or_else(ten, |recipe| recipe.stop_grace_seconds);
                let signal = match recipe.map(|recipe| recipe.stop_signal).unwrap_or_default() {
                    StopWord::Term => StopSignal::Term,
                    StopWord::Int => StopSignal::Int,
                };
                Stop { signal, grace: Duration::from_secs(grace.into()) }
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
        Kind::of(&profile.kind).expect("one of ours").check(profile)
    }

    #[rstest]
    #[case("dask.cluster-1.0", true)]
    #[case("local.process-1.0", true)]
    #[case("dask.cluster-2.0", false)]
    #[case("simulated.node-1.0", false)]
    fn types_are_known_with_their_version(#[case] name: &str, #[case] known: bool) {
        assert_eq!(Kind::of(&name.parse().unwrap()).is_some(), known);
    }

    #[rstest]
    #[case("local.process-1.0", json!({"command": ["sleep", "9"]}), None)]
    #[case("local.process-1.0", json!({}), Some("missing field `command`"))]
    #[case("local.process-1.0", json!({"command": []}), Some("command is empty"))]
    #[case("local.process-1.0", json!({"command": ["x"], "stop_signal": "SIGKILL"}), Some("unknown variant `SIGKILL`"))]
    #[case("local.process-1.0", json!({"comand": ["x"]}), Some("unknown field `comand`"))]
    #[case("dask.cluster-1.0", json!({"image": "/venv"}), None)]
    #[case("dask.cluster-1.0", json!({"command": ["x"]}), Some("unknown field `command`"))]
    #[case("dask.cluster-1.0", json!({"worker": {"cpu": 0}}), Some("dask.cluster-1.0: cpu is 0, and nothing"))]
    #[case("dask.cluster-1.0", json!({"head": {"memory": 1}}), Some("memory is 1, and no program runs in less"))]
    fn a_profile_says_what_it_must_and_nothing_else(
        #[case] kind: &str,
        #[case] properties: Value,
        #[case] wrong: Option<&str>,
    ) {
        let checked = check(&profile(kind, &properties));
        match wrong {
            None => assert_eq!(checked, Ok(())),
            Some(words) => {
                let sentence = checked.unwrap_err();
                assert!(sentence.contains(words), "{sentence}");
            }
        }
    }

    #[test]
    fn a_process_is_stopped_as_its_profile_says() {
        let properties = json!({"command": ["x"], "stop_signal": "SIGINT", "stop_grace_seconds": 3});
        let stop = Kind::Process.stop(&profile("local.process-1.0", &properties), NodeRole::Worker);
        assert_eq!(stop, Stop { signal: StopSignal::Int, grace: Duration::from_secs(3) });
        let stop =
            Kind::Process.stop(&profile("local.process-1.0", &json!({"command": ["x"]})), NodeRole::Worker);
        assert_eq!(stop, Stop::within(Duration::from_secs(10)));
    }
}
