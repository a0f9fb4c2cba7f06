//! Compares the names in a JSON body with the fields of its message.

use std::fmt;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::bind::BadRequest;
use crate::descriptor::POOL;
use crate::query::{self, BadParameter};
use crate::rest::UnknownNames;

#[cfg(test)]
mod tests;

/// The least similarity of a known name to be suggested, from 0 to 1.
const SIMILAR: f64 = 0.75;

/// The least part of the name that has to be equal: a common prefix alone scores too high in [`SIMILAR`].
const KEPT: f64 = 0.51;

/// A name that no field has, with the nearest known name and all known names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    path: String,
    nearest: Option<String>,
    known: Vec<String>,
}

impl UnknownName {
    /// Builds the error for the name at the end of a path, from the fields that are known at that place.
    pub(crate) fn new(path: &str, name: &str, fields: &[FieldDescriptor]) -> Self {
        let letters = |name: &str| name.replace('_', "").to_lowercase();
        let is_camel = name.contains(char::is_uppercase);
        let mut nearest: Option<(f64, &str)> = None;
        for field in fields {
            let (given, known) = (letters(name), letters(field.name()));
            let similarity = strsim::jaro_winkler(&given, &known);
            let is_similar =
                similarity >= SIMILAR && strsim::normalized_damerau_levenshtein(&given, &known) >= KEPT;
            if is_similar && nearest.is_none_or(|(best, _)| similarity > best) {
                nearest = Some((similarity, if is_camel { field.json_name() } else { field.name() }));
            }
        }
        Self {
            path: path.to_owned(),
            nearest: nearest.map(|(_, known)| known.to_owned()),
            known: fields.iter().map(|field| field.name().to_owned()).collect(),
        }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, nearest, known } = self;
        match nearest {
            Some(nearest) => write!(f, "'{path}' is not known: did you mean '{nearest}'?"),
            None if known.is_empty() => write!(f, "'{path}' is not known: leave it out"),
            None => write!(f, "'{path}' is not known: use one of {}", known.join(", ")),
        }
    }
}

/// Refuses unknown fields and fields that are given twice, in JSON that does not come from a request.
pub fn check_message(message: &str, members: &Map<String, Value>) -> Result<(), BadRequest> {
    let known = POOL.get_message_by_name(message);
    let fields: Vec<FieldDescriptor> = known.iter().flat_map(MessageDescriptor::fields).collect();
    check(&fields, members, "", UnknownNames::Refused)
}

/// Refuses fields that are given twice and, in a strict package, unknown fields and unknown values of enums, in nested
/// messages too. The keys of maps and the content of a `Struct` are not checked.
pub(crate) fn check(
    fields: &[FieldDescriptor],
    members: &Map<String, Value>,
    within: &str,
    unknown: UnknownNames,
) -> Result<(), BadRequest> {
    for (name, value) in members {
        let path = format!("{within}{name}");
        match fields.iter().find(|field| query::has_name(field, name)) {
            Some(field) if name != field.name() && members.contains_key(field.name()) => {
                return Err(BadRequest::Twice(format!("{within}{}", field.name())));
            }
            Some(field) => check_field(field, value, &path, unknown)?,
            None if unknown == UnknownNames::Ignored => {}
            None => return Err(BadParameter::Unknown(UnknownName::new(&path, name, fields)).into()),
        }
    }
    Ok(())
}

fn check_field(
    field: &FieldDescriptor,
    value: &Value,
    path: &str,
    unknown: UnknownNames,
) -> Result<(), BadRequest> {
    match (field.kind(), value) {
        (Kind::Message(entry), Value::Object(members)) if field.is_map() => {
            let kind = entry.map_entry_value_field().kind();
            members
                .iter()
                .try_for_each(|(key, value)| check_value(&kind, value, &format!("{path}.{key}"), unknown))
        }
        (kind, Value::Array(elements)) if field.is_list() => {
            let mut placed = elements.iter().enumerate();
            placed.try_for_each(|(place, value)| {
                check_value(&kind, value, &format!("{path}[{place}]"), unknown)
            })
        }
        (kind, value) if !field.is_map() && !field.is_list() => check_value(&kind, value, path, unknown),
        // The value has the wrong type; deserialization refuses it later, with a better message.
        _ => Ok(()),
    }
}

fn check_value(kind: &Kind, value: &Value, path: &str, unknown: UnknownNames) -> Result<(), BadRequest> {
    match (kind, value) {
        (Kind::Message(inner), Value::Object(members)) if is_ours(inner) => {
            check(&inner.fields().collect::<Vec<_>>(), members, &format!("{path}."), unknown)
        }
        (Kind::Enum(words), Value::String(_) | Value::Number(_))
            if unknown == UnknownNames::Refused && !has_word(words, value) =>
        {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let expected = query::expected(kind);
            Err(BadParameter::Value { name: path.to_owned(), value, expected }.into())
        }
        _ => Ok(()),
    }
}

fn has_word(words: &EnumDescriptor, value: &Value) -> bool {
    let number = |number: i64| i32::try_from(number).is_ok_and(|number| words.get_value(number).is_some());
    match value {
        Value::String(name) => words.get_value_by_name(name).is_some(),
        other => other.as_i64().is_some_and(number),
    }
}

/// Returns true for messages whose fields are known here. Well-known types are values, not messages with fields.
pub(crate) fn is_ours(message: &MessageDescriptor) -> bool {
    !message.full_name().starts_with("google.protobuf.")
}
