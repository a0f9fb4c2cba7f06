//! What a pod is, for people to look at.

use serde_json::{Map, Value};

/// What is said of a pod.
pub(crate) fn details(
    pod: String,
    namespace: String,
    machine: Option<String>,
    image: String,
) -> Map<String, Value> {
    let said =
        [("pod", Some(pod)), ("namespace", Some(namespace)), ("machine", machine), ("image", Some(image))];
    let known = |(key, value): (&str, Option<String>)| Some((key.to_owned(), Value::from(value?)));
    said.into_iter().filter_map(known).collect()
}
