//! Combines the path, the query and the body of an HTTP request into one request message, as JSON.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::descriptor;
use crate::names::{self, is_ours};
use crate::query::{self, BadParameter, Bound};
use crate::rest::{Body, Method, Rule};

#[cfg(test)]
mod tests;

/// The fields of a request for a mutation that a client may also put into the body, beside the fields of the object.
const MUTATION_FIELDS: [&str; 3] = ["wait_for", "wait_timeout", "request_id"];

/// The reason why a request cannot be converted to its message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// A name or a value is invalid.
    #[error(transparent)]
    Parameter(#[from] BadParameter),
    /// The body is JSON, but not an object.
    #[error("the body is {0}: a JSON object is expected")]
    NotAnObject(&'static str),
    /// The body has one field under both of its names.
    #[error("the body has '{0}' twice, once in each spelling: give it once")]
    Twice(String),
    /// A field has one value in the path, and another in the body or the query.
    #[error(
        "{field} is '{path}' in the path and {other} in the body or query: give it once, or the same value twice"
    )]
    Differs {
        /// The field.
        field: String,
        /// Its value in the path.
        path: String,
        /// Its value in the body or the query.
        other: String,
    },
}

/// Combines the parts of a request: the body overrides the query, and the path has to agree with both.
///
/// Unknown names are refused or ignored, depending on the package of the method. An update without a mask changes
/// exactly the fields that are in its body.
pub fn request(
    method: &Method,
    rule: &Rule,
    path: &[(String, String)],
    query: &str,
    body: Option<Value>,
) -> Result<Map<String, Value>, BadRequest> {
    let message =
        descriptor::message(method.request).expect("methods and descriptors are made of the same files");
    let in_path: Vec<&str> = rule.parameters().collect();
    let bound = Bound { path: &in_path, body: body_field(rule) };
    let mut request = query::read(&message, query, bound, method.unknown_names)?;
    let mut mask = None;
    match (rule.body, body) {
        (Body::Whole, Some(body)) => {
            let mut body = object(body)?;
            names::check(&fields(&message), &body, "", method.unknown_names)?;
            normalize(&message, &mut body);
            request.extend(take_known(&fields(&message), &mut body));
        }
        (Body::Field(name), Some(body)) => {
            if let Some(field) = query::field(&message, name)
                && let Kind::Message(inner) = field.kind()
            {
                let mut body = object(body)?;
                let beside = mutation_fields(&message, &inner);
                let allowed = [fields(&inner), beside.clone()].concat();
                names::check(&allowed, &body, &format!("{name}."), method.unknown_names)?;
                normalize(&inner, &mut body);
                request.extend(take_known(&beside, &mut body));
                mask = Some(paths_of(&inner, &body));
                request.insert(field.json_name().to_owned(), Value::Object(body));
            }
        }
        (Body::None, _) | (_, None) => {}
    }
    if query::field(&message, "update_mask").is_some()
        && let Some(mask) = mask
    {
        request.entry("updateMask").or_insert_with(|| Value::String(mask.join(",")));
    }
    for (name, value) in path {
        put_path(&message, &mut request, name, value)?;
    }
    Ok(request)
}

fn fields(message: &MessageDescriptor) -> Vec<FieldDescriptor> {
    message.fields().collect()
}

/// Returns the common fields of mutations that the request has and the message of its body has not.
fn mutation_fields(request: &MessageDescriptor, body: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let own = MUTATION_FIELDS.iter().filter(|name| query::field(body, name).is_none());
    own.filter_map(|name| query::field(request, name)).collect()
}

fn body_field(rule: &Rule) -> Option<&'static str> {
    match rule.body {
        Body::Field(name) => Some(name),
        Body::None | Body::Whole => None,
    }
}

/// Returns the members of a body, which has to be an object.
fn object(body: Value) -> Result<Map<String, Value>, BadRequest> {
    Err(BadRequest::NotAnObject(match body {
        Value::Object(map) => return Ok(map),
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
    }))
}

/// Converts a body to JSON that deserialization accepts. Members that are null are removed: null stands for a field's
/// default, except within a `Struct`, where it is a value. Whole numbers may be written as `2.0` or `2e0`.
fn normalize(message: &MessageDescriptor, body: &mut Map<String, Value>) {
    body.retain(|_, value| !value.is_null());
    for (name, value) in body {
        let Some(field) = query::field(message, name) else { continue };
        match (field.kind(), value) {
            (Kind::Message(entry), Value::Object(members)) if field.is_map() => {
                let kind = entry.map_entry_value_field().kind();
                members.retain(|_, value| !value.is_null());
                for value in members.values_mut() {
                    normalize_value(&kind, value);
                }
            }
            (kind, Value::Array(values)) => {
                for value in values {
                    normalize_value(&kind, value);
                }
            }
            (kind, value) => normalize_value(&kind, value),
        }
    }
}

fn normalize_value(kind: &Kind, value: &mut Value) {
    match (kind, &mut *value) {
        (Kind::Message(inner), Value::Object(members)) if is_ours(inner) => normalize(inner, members),
        (
            Kind::Int32
            | Kind::Sint32
            | Kind::Sfixed32
            | Kind::Uint32
            | Kind::Fixed32
            | Kind::Int64
            | Kind::Sint64
            | Kind::Sfixed64
            | Kind::Uint64
            | Kind::Fixed64,
            Value::Number(number),
        ) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole_number) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Returns a number without a fraction as an integer.
fn whole_number(number: f64) -> Option<i64> {
    if number.fract() == 0.0 { format!("{number:.0}").parse().ok() } else { None }
}

/// Moves the members that belong to these fields out of the body, and returns them under their JSON names.
fn take_known(fields: &[FieldDescriptor], body: &mut Map<String, Value>) -> Map<String, Value> {
    let mut known = Map::new();
    for field in fields {
        let value = body.remove(field.name()).or_else(|| body.remove(field.json_name()));
        known.extend(value.map(|value| (field.json_name().to_owned(), value)));
    }
    known
}

fn put_path(
    message: &MessageDescriptor,
    request: &mut Map<String, Value>,
    name: &str,
    given: &str,
) -> Result<(), BadRequest> {
    let value = query::value(message, name, given)?;
    let Some((field, value)) = value else { return Ok(()) };
    let earlier = request.insert(field.json_name().to_owned(), value.clone());
    match earlier {
        Some(other) if other != value && other != Value::String(String::new()) => Err(BadRequest::Differs {
            field: field.name().to_owned(),
            path: given.to_owned(),
            other: other.as_str().map_or_else(|| other.to_string(), |text| format!("'{text}'")),
        }),
        _ => Ok(()),
    }
}

/// Returns the update mask of a body: the paths of its fields, down to the fields that are replaced as a whole. A list
/// of messages adds the paths of each element, with its index: `groups`, `groups.0.size`.
fn paths_of(message: &MessageDescriptor, body: &Map<String, Value>) -> Vec<String> {
    let mut paths = Vec::new();
    collect_paths(message, body, "", &mut paths);
    paths
}

fn collect_paths(
    message: &MessageDescriptor,
    body: &Map<String, Value>,
    within: &str,
    paths: &mut Vec<String>,
) {
    for (name, value) in body {
        let Some(field) = query::field(message, name) else { continue };
        let path = format!("{within}{}", field.name());
        match (field.kind(), value) {
            (Kind::Message(inner), Value::Object(members)) if !field.is_map() && is_ours(&inner) => {
                collect_paths(&inner, members, &format!("{path}."), paths);
            }
            (Kind::Message(inner), Value::Array(elements)) if is_ours(&inner) => {
                for (place, element) in elements.iter().enumerate() {
                    if let Value::Object(members) = element {
                        collect_paths(&inner, members, &format!("{path}.{place}."), paths);
                    }
                }
                paths.push(path);
            }
            _ => paths.push(path),
        }
    }
}
