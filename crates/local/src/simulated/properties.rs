//! What a profile of simulated nodes may say.

use std::time::Duration;

use muster_core::profile::Profile;
use muster_core::profile_types;
use muster_core::string_enum::UnknownVariant;
use serde_json::Value;

use super::{SIMULATED_NODE, VERSION};

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Create,
    Delete,
    Check,
    Update,
}

/// What a cluster says of its use; of itself it would say that nobody uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Busy,
    Unknown,
}

/// The properties that have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Properties {
    pub(super) wait: Duration,
    pub(super) failure: Option<Failure>,
    pub(super) activity: Option<Use>,
}

/// The longest wait that can be asked for: a day.
const LONGEST_WAIT: f64 = 86_400.0;

impl Properties {
    /// Reads a profile; the sentence names what is wrong.
    pub(super) fn of(profile: &Profile) -> Result<Self, String> {
        // Those that stand in for a server's are kept and shown, without effect.
        let known: Vec<&str> = profile_types::find(SIMULATED_NODE, VERSION)
            .map_or_else(Vec::new, |of| of.schema.names().collect());
        if let Some(unknown) = profile.properties.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!(
                "Unrecognizable spec item '{unknown}': one of {} is expected",
                known.join(", ")
            ));
        }
        let Some(metadata) = profile.properties.get("metadata").filter(|metadata| !metadata.is_null()) else {
            return Ok(Self::default());
        };
        let metadata = metadata.as_object().ok_or_else(|| format!("'{metadata}' is not a Map"))?;
        let wait = metadata.get("simulated_wait_time").map(seconds).transpose()?.unwrap_or_default();
        let failure = metadata.get("simulated_failure").map(failure).transpose()?;
        let activity = metadata.get("simulated_activity").map(activity).transpose()?.flatten();
        Ok(Self { wait, failure, activity })
    }
}

fn seconds(value: &Value) -> Result<Duration, String> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    };
    match number {
        Some(seconds) if (0.0..=LONGEST_WAIT).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "simulated_wait_time is {value}: a number of seconds between 0 and {LONGEST_WAIT} is expected"
        )),
    }
}

fn failure(value: &Value) -> Result<Failure, String> {
    match value.as_str() {
        Some("create") => Ok(Failure::Create),
        Some("delete") => Ok(Failure::Delete),
        Some("check") => Ok(Failure::Check),
        Some("update") => Ok(Failure::Update),
        _ => Err(unknown(value, "simulated_failure", "create, delete, check, update")),
    }
}

fn activity(value: &Value) -> Result<Option<Use>, String> {
    match value.as_str() {
        Some("idle") => Ok(None),
        Some("busy") => Ok(Some(Use::Busy)),
        Some("unknown") => Ok(Some(Use::Unknown)),
        _ => Err(unknown(value, "simulated_activity", "idle, busy, unknown")),
    }
}

fn unknown(value: &Value, what: &'static str, known: &str) -> String {
    let given = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    UnknownVariant { given, what, known: known.to_owned() }.to_string()
}
