//! By how many a cluster is scaled out or in.

use serde_json::{Map, Value};

/// What policies left under `key`, else what was asked for, else one.
pub(crate) fn count(
    data: &Map<String, Value>,
    key: &str,
    inputs: &Value,
    direction: &str,
) -> Result<u32, String> {
    let given = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    if let Some(left) = given(data.get(key).and_then(|left| left.get("count"))) {
        return number(&left).ok_or_else(|| invalid(&left, direction));
    }
    match given(inputs.get("count")) {
        Some(asked) => number(&asked).filter(|count| *count > 0).ok_or_else(|| invalid(&asked, direction)),
        None => Ok(1),
    }
}

/// A number, also one that is written as text.
fn number(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64().and_then(|number| u32::try_from(number).ok()),
    }
}

fn invalid(value: &Value, direction: &str) -> String {
    let given = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("Invalid count ({given}) for scaling {direction}.")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn counted(data: &Value, inputs: &Value) -> Result<u32, String> {
        count(data.as_object().expect("a map"), "creation", inputs, "out")
    }

    #[rstest]
    #[case(json!({}), json!({}), 1)]
    #[case(json!({}), json!({"count": 3}), 3)]
    #[case(json!({}), json!({"count": "2"}), 2)]
    #[case(json!({}), json!({"count": null}), 1)]
    #[case(json!({"creation": {"count": 5}}), json!({"count": 3}), 5)]
    #[case(json!({"creation": {"count": 0}}), json!({"count": 3}), 0)]
    #[case(json!({"deletion": {"count": 5}}), json!({}), 1)]
    fn policies_go_before_the_request(#[case] data: Value, #[case] inputs: Value, #[case] count: u32) {
        assert_eq!(counted(&data, &inputs), Ok(count));
    }

    #[rstest]
    #[case(json!({"count": 0}), "0")]
    #[case(json!({"count": -1}), "-1")]
    #[case(json!({"count": "x"}), "x")]
    #[case(json!({"count": 1.5}), "1.5")]
    fn what_is_no_count_is_named(#[case] inputs: Value, #[case] given: &str) {
        let refused = counted(&json!({}), &inputs);
        assert_eq!(refused, Err(format!("Invalid count ({given}) for scaling out.")));
    }
}
