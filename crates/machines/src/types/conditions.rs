//! Conditions of a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use muster_core::time::Timestamp;

use crate::amounts::jiff_time;

/// The condition type of objects whose last pass succeeded.
pub const READY: &str = "Ready";

/// The condition type of Machines whose nodes have fewer slots than the spec promises.
pub const CAPACITY_SHORT: &str = "CapacityShort";

/// The condition type by which a Machine shows the condition `Ready` of its pool.
pub const NODE_POOL_READY: &str = "NodePoolReady";

/// The reason of a pass that succeeded.
const SUCCESS: &str = "Success";

/// The reason of a pass that failed.
const FAILURE: &str = "Failure";

/// The longest message that an API server accepts.
const LONGEST_MESSAGE: usize = 32_768;

/// A condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCondition {
    /// The type of the condition.
    pub type_: &'static str,
    /// The status: true, false or unknown.
    pub holds: Option<bool>,
    /// The reason in one word, for programs.
    pub reason: String,
    /// The message for users.
    pub message: String,
}

/// The condition `Ready` after a pass with these problems.
pub fn ready(problems: &[String]) -> WantedCondition {
    let (holds, reason, message) = match problems {
        [] => (true, SUCCESS, "update status conditions".to_owned()),
        _ => (false, FAILURE, problems.join("; ")),
    };
    WantedCondition { type_: READY, holds: Some(holds), reason: reason.to_owned(), message }
}

/// The conditions after a pass: the time of a transition changes only when the status does, and conditions of others
/// stay.
pub fn merge_conditions(
    before: &[Condition],
    wanted: Vec<WantedCondition>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut after = before.to_vec();
    for WantedCondition { type_, holds, reason, mut message } in wanted {
        truncate(&mut message);
        let status = match holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let existing = after.iter().position(|condition| condition.type_ == type_);
        let since = existing
            .and_then(|at| after.get(at))
            .filter(|condition| condition.status == status)
            .map(|condition| condition.last_transition_time.clone());
        let condition = Condition {
            last_transition_time: since.unwrap_or_else(|| Time(jiff_time(now))),
            message,
            observed_generation: generation,
            reason,
            status: status.to_owned(),
            type_: type_.to_owned(),
        };
        match existing.and_then(|at| after.get_mut(at)) {
            Some(place) => *place = condition,
            None => after.push(condition),
        }
    }
    after
}

/// Cuts a message at a character.
fn truncate(message: &mut String) {
    if message.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(holds: bool, message: &str) -> Vec<WantedCondition> {
        vec![WantedCondition {
            type_: READY,
            holds: Some(holds),
            reason: SUCCESS.into(),
            message: message.into(),
        }]
    }

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_time_of_a_transition_changes_with_the_status_only() {
        let first = merge_conditions(&[], condition(true, "a"), Some(1), at(10));
        let second = merge_conditions(&first, condition(true, "b"), Some(2), at(20));
        assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
        assert_eq!((second[0].message.as_str(), second[0].observed_generation), ("b", Some(2)));
        let third = merge_conditions(&second, condition(false, "b"), Some(2), at(30));
        assert_eq!(third[0].last_transition_time, Time(jiff_time(at(30))));
    }

    #[test]
    fn conditions_of_others_stay() {
        let mut before = merge_conditions(&[], condition(true, ""), None, at(0));
        before[0].type_ = "Other".into();
        let after = merge_conditions(&before, condition(true, ""), None, at(1));
        assert_eq!(
            after.iter().map(|condition| condition.type_.as_str()).collect::<Vec<_>>(),
            ["Other", READY]
        );
    }

    #[test]
    fn a_message_is_cut_at_a_character() {
        let after = merge_conditions(&[], condition(true, &"é".repeat(20_000)), None, at(0));
        assert_eq!(after[0].message.len(), 32_768);
    }
}
