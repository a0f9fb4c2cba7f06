//! The properties of profiles of simulated nodes.

use std::time::Duration;

use muster_core::profile::Profile;
use muster_core::profile_types;
use muster_core::string_enum::UnknownVariant;
use serde_json::Value;

use super::{SIMULATED_NODE, VERSION};

/// The operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimulatedFailure {
    Create,
    Delete,
    Check,
    Update,
}

/// The reported activity of a cluster; by default it is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimulatedUse {
    Busy,
    Unknown,
}

/// The properties that have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SimulatedProperties {
    pub(super) wait: Duration,
    pub(super) failure: Option<SimulatedFailure>,
    pub(super) activity: Option<SimulatedUse>,
}

/// The longest wait: a day, in seconds.
const MAX_WAIT: f64 = 86_400.0;

impl SimulatedProperties {
    /// Reads the properties of a profile. The error is a message for the caller.
    pub(super) fn from_profile(profile: &Profile) -> Result<Self, String> {
        // Properties of Nova servers, such as flavor and image, are accepted and shown without effect.
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
        let wait = metadata.get("simulated_wait_time").map(parse_seconds).transpose()?.unwrap_or_default();
        let failure = metadata.get("simulated_failure").map(parse_failure).transpose()?;
        let activity = metadata.get("simulated_activity").map(parse_activity).transpose()?.flatten();
        Ok(Self { wait, failure, activity })
    }
}

fn parse_seconds(value: &Value) -> Result<Duration, String> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    };
    match number {
        Some(seconds) if (0.0..=MAX_WAIT).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "simulated_wait_time is {value}: must be a number of seconds between 0 and {MAX_WAIT}"
        )),
    }
}

fn parse_failure(value: &Value) -> Result<SimulatedFailure, String> {
    match value.as_str() {
        Some("create") => Ok(SimulatedFailure::Create),
        Some("delete") => Ok(SimulatedFailure::Delete),
        Some("check") => Ok(SimulatedFailure::Check),
        Some("update") => Ok(SimulatedFailure::Update),
        _ => Err(unknown_variant(value, "simulated_failure", "create, delete, check or update")),
    }
}

fn parse_activity(value: &Value) -> Result<Option<SimulatedUse>, String> {
    match value.as_str() {
        Some("idle") => Ok(None),
        Some("busy") => Ok(Some(SimulatedUse::Busy)),
        Some("unknown") => Ok(Some(SimulatedUse::Unknown)),
        _ => Err(unknown_variant(value, "simulated_activity", "idle, busy or unknown")),
    }
}

fn unknown_variant(value: &Value, what: &'static str, known: &str) -> String {
    let given = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    UnknownVariant { given, what, known: known.to_owned() }.to_string()
}
