//! What a profile of simulated nodes may say.

use std::time::Duration;

use muster_core::profile::Profile;
use muster_core::words::UnknownWord;
use serde_json::Value;

/// The properties that stand in for those of a server: kept, shown, and without effect.
const KEPT: &[&str] = &["flavor", "name", "image", "networks", "key_name", "metadata"];

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Create,
    Delete,
    Check,
    Update,
}

/// The properties that have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Properties {
    pub(super) wait: Duration,
    pub(super) failure: Option<Failure>,
}

/// The longest wait that can be asked for: a day.
const LONGEST_WAIT: f64 = 86_400.0;

impl Properties {
    /// Reads a profile; the sentence names what is wrong.
    pub(super) fn of(profile: &Profile) -> Result<Self, String> {
        if let Some(unknown) = profile.properties.keys().find(|key| !KEPT.contains(&key.as_str())) {
            return Err(format!(
                "Unrecognizable spec item '{unknown}': one of {} is expected",
                KEPT.join(", ")
            ));
        }
        let Some(metadata) = profile.properties.get("metadata").filter(|metadata| !metadata.is_null()) else {
            return Ok(Self::default());
        };
        let metadata = metadata.as_object().ok_or_else(|| format!("'{metadata}' is not a Map"))?;
        let wait = metadata.get("simulated_wait_time").map(seconds).transpose()?.unwrap_or_default();
        let failure = metadata.get("simulated_failure").map(failure).transpose()?;
        Ok(Self { wait, failure })
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
        _ => Err(UnknownWord {
            given: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            what: "simulated_failure",
            known: "create, delete, check, update".to_owned(),
        }
        .to_string()),
    }
}
