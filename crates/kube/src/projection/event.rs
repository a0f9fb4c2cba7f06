//! Events that Kubernetes publishes.

use k8s_openapi::api::core::v1::Event;
use kube::Resource;
use kube::api::ObjectMeta;
use muster_core::event::ExternalRecord;
use muster_core::time::Timestamp;
use muster_engine::ports::provider::ExternalEvent;
use serde::Deserialize;

/// An event; fields that are not used are skipped when it is read.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Event)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeanEvent {
    metadata: ObjectMeta,
    #[serde(default)]
    involved_object: InvolvedObject,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "type")]
    level: String,
    count: Option<u32>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    #[serde(default)]
    series: EventSeries,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    kind: String,
    name: String,
    uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventSeries {
    count: Option<u32>,
    last_observed_time: Option<String>,
}

impl LeanEvent {
    /// Returns the UID of the object that the event is about.
    pub(crate) fn about(&self) -> &str {
        &self.involved_object.uid
    }

    /// Returns the UID of the event itself.
    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the event for the engine; `None` if it has no usable time or UID.
    pub(crate) fn into_external_event(self) -> Option<ExternalEvent> {
        let created = self.metadata.creation_timestamp.as_ref().map(|created| created.0.to_string());
        let EventSeries { count: series_count, last_observed_time } = self.series;
        let at = first_time([&last_observed_time, &self.last_timestamp, &self.event_time, &created])?;
        let first = first_time([&self.event_time, &self.first_timestamp, &created, &None]);
        Some(ExternalEvent {
            id: self.metadata.uid?.parse().ok()?,
            version: self.metadata.resource_version?.parse().unwrap_or(0),
            kind: self.involved_object.kind,
            object: self.involved_object.name,
            reason: self.reason,
            message: self.message,
            is_warning: self.level == "Warning",
            at,
            record: ExternalRecord {
                name: self.metadata.name.unwrap_or_default(),
                // An event that occurred once may have no count.
                count: series_count.or(self.count).unwrap_or(1).max(1),
                first: first.unwrap_or(at),
                last: at,
            },
        })
    }
}

/// Returns the first of these times that can be read.
fn first_time(times: [&Option<String>; 4]) -> Option<Timestamp> {
    let time = times.into_iter().flatten().find_map(|time| time.parse::<jiff::Timestamp>().ok())?;
    Some(Timestamp::from_micros(time.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::of_the_core_api(
        json!({"count": 7, "firstTimestamp": "2026-01-01T00:00:01Z", "lastTimestamp": "2026-01-01T00:00:09Z"}),
        (7, 1, 9)
    )]
    #[case::of_a_series(
        json!({
            "eventTime": "2026-01-01T00:00:02.000000Z",
            "series": {"count": 4, "lastObservedTime": "2026-01-01T00:00:08.000000Z"},
        }),
        (4, 2, 8)
    )]
    #[case::that_occurred_once(json!({"eventTime": "2026-01-01T00:00:03.000000Z"}), (1, 3, 3))]
    #[case::without_times(json!({"count": 0}), (1, 0, 0))]
    fn a_record_has_the_name_the_count_and_the_times_of_the_event(
        #[case] fields: Value,
        #[case] (count, first, last): (u32, i64, i64),
    ) {
        let mut event = json!({"metadata": {
            "name": "fred.17a", "uid": "0190f3a2-7b1c-4d4e-8f00-000000000001", "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }});
        event.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        let event: LeanEvent = serde_json::from_value(event).expect("an event");
        let second = |second: i64| Timestamp::from_micros((1_767_225_600 + second) * 1_000_000);
        let expected =
            ExternalRecord { name: "fred.17a".to_owned(), count, first: second(first), last: second(last) };
        assert_eq!(event.into_external_event().expect("usable").record, expected);
    }
}
