//! Error messages for invalid JSON requests that name the field, its value and the expected type.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::{descriptor, query};

/// The longest value that a message repeats; a longer one would hide the rest of the message.
const SHOWN: usize = 80;

/// Returns the error message for a request whose value at this path cannot be read.
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

/// The field at a path, its value, and the expected type.
struct Place<'r> {
    name: String,
    value: Option<&'r Value>,
    expected: Option<String>,
}

fn find<'r>(message: MessageDescriptor, request: &'r Value, path: &Path) -> Place<'r> {
    let mut place = Place { name: String::new(), value: Some(request), expected: None };
    // Below the last message with a known descriptor, only the values can be followed, not the fields.
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

/// Returns the field that describes the values of a map.
fn map_value(field: &FieldDescriptor) -> Option<FieldDescriptor> {
    match field.kind() {
        Kind::Message(entry) => Some(entry.map_entry_value_field()),
        _ => None,
    }
}

/// Returns the expected JSON type of a whole field.
fn whole(field: &FieldDescriptor) -> String {
    if field.is_map() {
        "an object".to_owned()
    } else if field.is_list() {
        "an array".to_owned()
    } else {
        query::expected(&field.kind())
    }
}

/// Returns a value as it was given, shortened if it is long.
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
