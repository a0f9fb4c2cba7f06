//! Makes one request of what came in the path, the query and the body.

use prost_reflect::{Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::descriptor;
use crate::query::{self, BadParameter};
use crate::rest::{Body, Method, Rule};

#[cfg(test)]
mod tests;

/// A request that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// A value of the path or the query.
    #[error(transparent)]
    Parameter(#[from] BadParameter),
    /// A body that is JSON, but no object.
    #[error("the body is {0}: a JSON object is expected")]
    NotAnObject(&'static str),
    /// One field under both of its names.
    #[error("the body has '{0}' twice, once in each spelling: give it once")]
    Twice(String),
    /// The path says one thing and the body another.
    #[error(
        "{field} is '{path}' in the path and {body} in the body: leave it out of the body, or make both the same"
    )]
    Differs {
        /// The field.
        field: String,
        /// Its value in the path.
        path: String,
        /// Its value in the body.
        body: String,
    },
}

/// Puts a request together: the query first, over it the body, over it the path.
///
/// Unknown names are ignored. Without a mask a PATCH changes the fields that its body has.
pub fn request(
    method: &Method,
    rule: &Rule,
    path: &[(String, String)],
    query: &str,
    body: Option<Value>,
) -> Result<Map<String, Value>, BadRequest> {
    let message =
        descriptor::message(method.request).expect("methods and descriptors are made of the same files");
    let bound: Vec<&str> = rule.parameters().chain(body_field(rule)).collect();
    let mut request = query::read(&message, query, &bound)?;
    let mut mask = None;
    match (rule.body, body) {
        (Body::Whole, Some(body)) => {
            for (name, value) in known(&message, object(&message, body)?)? {
                request.insert(name, value);
            }
        }
        (Body::Field(name), Some(body)) => {
            if let Some(field) = query::field(&message, name)
                && let Kind::Message(inner) = field.kind()
            {
                let body = object(&inner, body)?;
                mask = Some(paths_of(&inner, &body));
                request.insert(field.json_name().to_owned(), Value::Object(body));
            }
        }
        (Body::None, _) | (_, None) => {}
    }
    if rule.verb == http::Method::PATCH
        && let Some(mask) = mask
    {
        request.entry("updateMask").or_insert_with(|| Value::String(mask.join(",")));
    }
    for (name, value) in path {
        put_path(&message, &mut request, name, value)?;
    }
    Ok(request)
}

fn body_field(rule: &Rule) -> Option<&'static str> {
    match rule.body {
        Body::Field(name) => Some(name),
        Body::None | Body::Whole => None,
    }
}

/// The members of a body; what is null is as good as absent.
fn object(message: &MessageDescriptor, body: Value) -> Result<Map<String, Value>, BadRequest> {
    Err(BadRequest::NotAnObject(match body {
        Value::Object(mut map) => {
            drop_nulls(message, &mut map);
            return Ok(map);
        }
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
    }))
}

/// JSON's null stands for a field's default; only within a `Struct` it is a value.
fn drop_nulls(message: &MessageDescriptor, body: &mut Map<String, Value>) {
    body.retain(|_, value| !value.is_null());
    for (name, value) in body {
        let Some(Kind::Message(inner)) = query::field(message, name).map(|field| field.kind()) else {
            continue;
        };
        if !is_ours(&inner) {
            continue;
        }
        match value {
            Value::Object(members) => drop_nulls(&inner, members),
            Value::Array(values) => {
                values
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|members| drop_nulls(&inner, members));
            }
            _ => {}
        }
    }
}

/// The members that are fields of the message, under their JSON names.
fn known(message: &MessageDescriptor, body: Map<String, Value>) -> Result<Map<String, Value>, BadRequest> {
    let mut known = Map::new();
    for (name, value) in body {
        let Some(field) = query::field(message, &name) else { continue };
        if known.insert(field.json_name().to_owned(), value).is_some() {
            return Err(BadRequest::Twice(field.name().to_owned()));
        }
    }
    Ok(known)
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
        Some(body) if body != value && body != Value::String(String::new()) => Err(BadRequest::Differs {
            field: field.name().to_owned(),
            path: given.to_owned(),
            body: body.as_str().map_or_else(|| body.to_string(), |text| format!("'{text}'")),
        }),
        _ => Ok(()),
    }
}

/// The fields that a body has, down to those that are replaced as a whole. Of a list of messages also those of each
/// element, with its place: `groups`, `groups.0.size`.
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

/// Well-known types are values, not messages with fields.
fn is_ours(message: &MessageDescriptor) -> bool {
    !message.full_name().starts_with("google.protobuf.")
}
