//! Says what is wrong with a JSON request in the words of its fields, not of the parser.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::{descriptor, query};

/// The longest value that is repeated; more would hide the sentence.
const SHOWN: usize = 80;

/// The sentence for a request of this message that cannot be read at this path.
pub(crate) fn sentence(message: &str, request: &Value, path: &Path, error: &str) -> String {
    let Some(message) = descriptor::message(message) else {
        return format!("the request cannot be read: {error}");
    };
    let place = find(message, request, path);
    let name = if place.name.is_empty() { "the request" } else { &place.name };
    match (place.value, place.expected) {
        (Some(value), Some(expected)) => format!("{name} is {}: {expected} is expected", shown(value)),
        _ => format!("{name} cannot be read: {error}"),
    }
}

/// The schema element at a path.
struct Place<'r> {
    name: String,
    value: Option<&'r Value>,
    expected: Option<String>,
}

fn find<'r>(message: MessageDescriptor, request: &'r Value, path: &Path) -> Place<'r> {
    let mut place = Place { name: String::new(), value: Some(request), expected: None };
    // Beyond the last message that is ours, fields are not known, but values are.
    let mut within = Some(message);
    let mut field: Option<FieldDescriptor> = None;
    for segment in path {
        match segment {
            Segment::Map { key } => {
                place.value = place.value.and_then(|value| value.get(key));
                if !place.name.is_empty() {
                    place.name.push('.');
                }
                place.name.push_str(key);
                let entry = field.as_ref().filter(|field| field.is_map()).and_then(map_value);
                field = entry.or_else(|| within.as_ref().and_then(|message| query::field(message, key)));
                place.expected = field.as_ref().map(whole);
            }
            Segment::Seq { index } => {
                place.value = place.value.and_then(|value| value.get(index));
                place.name.extend(["[", &index.to_string(), "]"]);
                place.expected = field.as_ref().map(|field| query::expected(&field.kind()));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
        within = field.as_ref().filter(|field| !field.is_map()).and_then(|field| match field.kind() {
            Kind::Message(inner) => Some(inner),
            _ => None,
        });
    }
    place
}

/// The field that the values of a map are.
fn map_value(field: &FieldDescriptor) -> Option<FieldDescriptor> {
    match field.kind() {
        Kind::Message(entry) => Some(entry.map_entry_value_field()),
        _ => None,
    }
}

/// The expected JSON type of a field.
fn whole(field: &FieldDescriptor) -> String {
    if field.is_map() {
        "an object".to_owned()
    } else if field.is_list() {
        "an array".to_owned()
    } else {
        query::expected(&field.kind())
    }
}

/// A value as it was given, if that is short.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        return text;
    }
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        _ => format!("{}…", text.chars().take(SHOWN).collect::<String>()),
    }
}
