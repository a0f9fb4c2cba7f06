use rstest::rstest;
use serde_json::json;

use super::*;

const ITEM: Property = Property::string("A word.").allowed(&["A", "B"]);

const SCHEMA: Schema = Schema(&[
    ("name", Property::string("Its name.").required()),
    ("count", Property::integer("How many.").default_int(3).updatable()),
    ("share", Property::number("What part.").default_int(1)),
    ("strict", Property::boolean("Whether it is.").default_flag(true)),
    ("word", Property::string("Which.").allowed(&["FOO", "BAR"])),
    ("words", Property::list("Which ones.", &ITEM)),
    (
        "rest",
        Property::map(
            "When it rests.",
            Schema(&[
                ("after", Property::integer("Seconds.").default_int(60)),
                ("why", Property::string("The reason.").required()),
            ]),
        ),
    ),
    (
        "limits",
        Property::map("Bounds.", Schema(&[("most", Property::integer("Most.").default_int(9))])).filled(),
    ),
    ("labels", Property::free_map("What you like.").updatable().default_empty()),
]);

fn resolve(given: &Value) -> Result<Value, String> {
    let given = given.as_object().expect("a map");
    SCHEMA.resolve(given).map(Value::Object).map_err(|error| error.to_string())
}

#[test]
fn what_is_not_given_is_read_as_its_default() {
    let read = resolve(&json!({"name": "fred", "count": null})).unwrap();
    let expected = json!({
        "name": "fred", "count": 3, "share": 1, "strict": true, "limits": {"most": 9}, "labels": {},
    });
    assert_eq!(read, expected);
}

#[test]
fn the_defaults_within_a_map_are_filled_in_when_it_is_given() {
    let read = resolve(&json!({"name": "fred", "rest": {"why": "tired"}})).unwrap();
    assert_eq!(read["rest"], json!({"after": 60, "why": "tired"}));
}

#[rstest]
#[case(json!({"count": "7"}), "count", json!(7))]
#[case(json!({"count": -1}), "count", json!(-1))]
#[case(json!({"count": 2.0}), "count", json!(2))]
#[case(json!({"share": "0.5"}), "share", json!(0.5))]
#[case(json!({"share": "50"}), "share", json!(50))]
#[case(json!({"strict": "False"}), "strict", json!(false))]
#[case(json!({"strict": "true"}), "strict", json!(true))]
#[case(json!({"name": 5}), "name", json!("5"))]
#[case(json!({"labels": {"a": {"b": [1]}}}), "labels", json!({"a": {"b": [1]}}))]
#[case(json!({"words": ["B", "A"]}), "words", json!(["B", "A"]))]
fn values_are_read_leniently(#[case] mut given: Value, #[case] name: &str, #[case] expected: Value) {
    let entries = given.as_object_mut().unwrap();
    entries.entry("name").or_insert("fred".into());
    assert_eq!(resolve(&given).unwrap()[name], expected);
}

#[rstest]
#[case(json!({}), "Required spec item 'name' not provided")]
#[case(json!({"name": null}), "Required spec item 'name' not provided")]
#[case(json!({"name": "x", "bogus": 1}), "Unrecognizable spec item 'bogus'")]
#[case(json!({"bogus": 1}), "Required spec item 'name' not provided")]
#[case(json!({"name": "x", "word": "BAZ"}), "'BAZ' must be one of the allowed values: FOO, BAR")]
#[case(json!({"name": "x", "words": ["A", "C"]}), "'C' must be one of the allowed values: A, B")]
#[case(json!({"name": "x", "count": "many"}), "The value 'many' is not a valid Integer")]
#[case(json!({"name": "x", "count": 1.5}), "The value '1.5' is not a valid Integer")]
#[case(json!({"name": "x", "count": true}), "The value 'True' is not a valid Integer")]
#[case(json!({"name": "x", "share": "x"}), "The value 'x' is not a valid number.")]
#[case(json!({"name": "x", "share": "NaN"}), "The value 'NaN' is not a valid number.")]
#[case(json!({"name": "x", "strict": "maybe"}), "The value 'maybe' is not a valid Boolean")]
#[case(json!({"name": ["x"]}), "The value '['x']' is not a valid string.")]
#[case(json!({"name": "x", "rest": "x"}), "'x' is not a Map")]
#[case(json!({"name": "x", "rest": [1, "a"]}), "'[1, 'a']' is not a Map")]
#[case(json!({"name": "x", "words": {"a": null}}), "'{'a': None}' is not a List")]
#[case(json!({"name": "x", "words": "A"}), "'A' is not a List")]
#[case(json!({"name": "x", "rest": {}}), "Required spec item 'why' not provided")]
#[case(json!({"name": "x", "rest": {"why": "y", "who": 1}}), "Unrecognizable spec item 'who'")]
fn errors_have_the_messages_that_clients_compare(#[case] given: Value, #[case] words: &str) {
    assert_eq!(resolve(&given).unwrap_err(), words);
}

#[test]
fn a_schema_shows_itself() {
    let shown = SCHEMA.to_json();
    assert_eq!(
        shown["count"],
        json!({"type": "Integer", "description": "How many.", "required": false, "updatable": true, "default": 3})
    );
    assert_eq!(
        shown["word"]["constraints"],
        json!([{"type": "AllowedValues", "constraint": ["FOO", "BAR"]}])
    );
    assert_eq!(shown["words"]["schema"]["*"]["type"], "String");
    assert_eq!(shown["rest"]["schema"]["why"]["required"], true);
    assert_eq!(shown["labels"]["default"], json!({}));
    assert_eq!(shown["limits"].get("default"), None, "a filled map has no default");
}

#[test]
fn parameters_say_nothing_of_updates() {
    let shown = SCHEMA.to_parameters_json();
    assert_eq!(shown["word"].get("updatable"), None);
    assert_eq!(shown["rest"]["schema"]["why"].get("updatable"), None);
    assert_eq!(shown["word"]["required"], false);
}

#[test]
fn what_may_not_be_changed_is_named() {
    let before = json!({"name": "a", "count": 1, "labels": {"a": 1}, "word": null});
    let after = json!({"name": "b", "count": 2, "labels": {}});
    let changed = SCHEMA.frozen_changes(before.as_object().unwrap(), after.as_object().unwrap());
    assert_eq!(changed, ["name"]);
}

#[test]
fn an_envelope_names_its_type_and_gives_its_properties() {
    let spec = json!({"type": "a.b", "version": 1.0, "properties": {"x": 1}});
    let envelope = Envelope::read(&spec).unwrap();
    assert_eq!((envelope.kind().as_str(), envelope.version.as_str()), ("a.b-1.0", "1.0"));
    assert_eq!(Value::Object(envelope.properties().unwrap().clone()), json!({"x": 1}));
}

#[rstest]
#[case(json!([]), "The provided spec is not a map.")]
#[case(json!({"version": 1}), "The 'type' key is missing from the provided spec map.")]
#[case(json!({"type": "a"}), "The 'version' key is missing from the provided spec map.")]
#[case(json!({"type": "a", "version": 1}), "Required spec item 'properties' not provided")]
#[case(json!({"type": "a", "version": 1, "properties": 5}), "'5' is not a Map")]
#[case(json!({"type": "a", "version": 1, "properties": {}, "foo": 1}), "Unrecognizable spec item 'foo'")]
#[case(json!({"type": "a", "version": 1, "properties": {}, "description": []}), "The value '[]' is not a valid string.")]
fn an_envelope_that_is_wrong_is_refused(#[case] spec: Value, #[case] words: &str) {
    let properties = Envelope::read(&spec).and_then(|envelope| envelope.properties().cloned());
    assert_eq!(properties.unwrap_err().to_string(), words);
}
