//! The comparison of an object on the API server with the wanted one, which avoids writes that change nothing.

use serde_json::{Map, Value};

use crate::amounts::parse;

/// Returns true if the object contains everything that is wanted. Fields that the API server or other clients added are
/// ignored; amounts of resources are compared as quantities.
pub(crate) fn covers(observed: &Value, wanted: &Value) -> bool {
    match (observed, wanted) {
        (Value::Object(observed), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match (key.as_str(), wanted) {
                ("requests" | "limits", Value::Object(amounts)) => same_amounts(observed.get(key), amounts),
                _ => observed.get(key).is_some_and(|observed| covers(observed, wanted)),
            })
        }
        (Value::Array(observed), Value::Array(wanted)) => {
            observed.len() == wanted.len()
                && observed.iter().zip(wanted).all(|(observed, wanted)| covers(observed, wanted))
        }
        _ => observed == wanted,
    }
}

fn same_amounts(observed: Option<&Value>, wanted: &Map<String, Value>) -> bool {
    let amount = |resource: &str, value: &Value| parse(resource, value.as_str()?);
    let Some(observed) = observed.and_then(Value::as_object) else { return wanted.is_empty() };
    observed.len() == wanted.len()
        && wanted.iter().all(|(resource, wanted)| {
            let observed = observed.get(resource).and_then(|observed| amount(resource, observed));
            observed.is_some() && observed == amount(resource, wanted)
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::more(json!({"a": 1, "b": 2}), json!({"a": 1}), true)]
    #[case::other(json!({"a": 1}), json!({"a": 2}), false)]
    #[case::missing(json!({}), json!({"a": 2}), false)]
    #[case::lists_are_whole(json!([1, 2]), json!([1]), false)]
    #[case::elements_may_have_more(json!([{"a": 1, "b": 2}]), json!([{"a": 1}]), true)]
    #[case::quantities(json!({"limits": {"cpu": "40"}}), json!({"limits": {"cpu": "40000m"}}), true)]
    #[case::other_quantities(json!({"limits": {"cpu": "41"}}), json!({"limits": {"cpu": "40"}}), false)]
    #[case::more_resources(json!({"limits": {"cpu": "1", "x": "1"}}), json!({"limits": {"cpu": "1"}}), false)]
    fn an_object_covers_what_is_wanted(
        #[case] observed: Value,
        #[case] wanted: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(covers(&observed, &wanted), expected);
    }
}
