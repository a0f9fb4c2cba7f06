//! The details of a pod that APIs show for its node.

use serde_json::{Map, Value};

/// Returns the details of a node that is a pod; unknown ones are left out.
pub(crate) fn pod_details(
    pod: String,
    namespace: String,
    machine: Option<String>,
    image: String,
) -> Map<String, Value> {
    let details =
        [("pod", Some(pod)), ("namespace", Some(namespace)), ("machine", machine), ("image", Some(image))];
    let known = |(key, value): (&str, Option<String>)| Some((key.to_owned(), Value::from(value?)));
    details.into_iter().filter_map(known).collect()
}
