//! Compares the messages with those of Senlin's validators.

use rstest::rstest;
use serde_json::json;

use super::*;

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn message_of<T: std::fmt::Debug>(result: Result<T, SenlinError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.status.as_u16(), 400);
    error.message
}

#[rstest]
#[case(json!(""), "The value for the name field must be at least 1 characters long.")]
#[case(json!("a b"), "The value for the 'name' (a b) contains illegal characters. It must contain only alphanumeric or \"_-.~\" characters and must start with letter.")]
#[case(json!(5), MALFORMED)]
#[case(json!("x".repeat(256)), "The value for the name field must be less than 255 characters long.")]
fn bad_names_are_refused(#[case] name: Value, #[case] message: &str) {
    let fields = fields(json!({"name": name}));
    assert_eq!(message_of(FieldReader::new(&fields).name("name")), message);
}

#[rstest]
#[case(json!("1-a.b_c~"))]
#[case(json!("集群"))]
#[case(json!("x".repeat(255)))]
fn good_names_are_taken(#[case] name: Value) {
    let fields = fields(json!({"name": name}));
    assert_eq!(FieldReader::new(&fields).name("name").unwrap(), name.as_str());
}

#[rstest]
#[case(json!("abc"), "The value for desired_capacity must be an integer: 'abc'.")]
#[case(json!(-1), "The value for the desired_capacity field must be greater than or equal to 0.")]
#[case(json!(1001), "The value for the desired_capacity field must be less than or equal to 1000.")]
#[case(json!(1.5), "1.5 is not of type 'integer', 'string', 'null'")]
#[case(json!("-1"), "'-1' does not match '^[0-9]*$'")]
fn bad_capacities_are_refused(#[case] given: Value, #[case] message: &str) {
    let fields = fields(json!({"desired_capacity": given}));
    assert_eq!(message_of(FieldReader::new(&fields).capacity("desired_capacity", 0, 1000)), message);
}

#[rstest]
#[case(json!(3), Some(3))]
#[case(json!("3"), Some(3))]
#[case(json!(null), None)]
fn capacities_may_be_texts_or_nothing(#[case] given: Value, #[case] taken: Option<i64>) {
    let fields = fields(json!({"desired_capacity": given}));
    assert_eq!(FieldReader::new(&fields).capacity("desired_capacity", 0, 1000).unwrap(), taken);
}

#[rstest]
#[case(json!("x"), "The value for timeout must be an integer: 'x'.")]
#[case(json!(-3), "Value must be >= 0 for field 'timeout'.")]
fn bad_counts_are_refused(#[case] given: Value, #[case] message: &str) {
    let fields = fields(json!({"timeout": given}));
    assert_eq!(message_of(FieldReader::new(&fields).count("timeout")), message);
}

#[test]
fn booleans_have_many_spellings() {
    let fields = fields(json!({"a": "YES", "b": "off", "c": true, "d": "abc"}));
    let mut form = FieldReader::new(&fields);
    assert_eq!(form.boolean("a").unwrap(), Some(true));
    assert_eq!(form.boolean("b").unwrap(), Some(false));
    assert_eq!(form.boolean("c").unwrap(), Some(true));
    assert_eq!(
        message_of(form.boolean("d")),
        "Unrecognized value 'abc', acceptable values are: '0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', \
         'y', 'yes'"
    );
}

#[test]
fn an_object_may_be_written_as_text() {
    let fields = fields(json!({"a": "{\"x\": 1}", "b": [1]}));
    let mut form = FieldReader::new(&fields);
    assert_eq!(form.map("a").unwrap().unwrap()["x"], 1);
    assert_eq!(message_of(form.map("b")), "[1] is not of type 'object', 'null'");
}

#[test]
fn missing_fields_are_reported_before_unknown_ones() {
    let fields = fields(json!({"foo": 1, "bar": 2}));
    let mut form = FieldReader::new(&fields);
    form.any("name");
    form.require("name");
    assert_eq!(message_of(form.done()), "'name' is a required property");
    let mut form = FieldReader::new(&fields);
    form.any("foo");
    assert_eq!(message_of(form.done()), "Additional properties are not allowed ('bar' was unexpected)");
    let form = FieldReader::new(&fields);
    assert_eq!(
        message_of(form.done()),
        "Additional properties are not allowed ('bar', 'foo' were unexpected)"
    );
}

#[test]
fn null_is_refused_where_a_value_is_required() {
    let fields = fields(json!({"token": null}));
    assert_eq!(message_of(FieldReader::new(&fields).not_null("token")), "Field `token' cannot be None");
}
