//! Converts a query string to JSON, by the descriptor of the request message.

use std::str::FromStr;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::names::UnknownName;
use crate::rest::UnknownNames;
use crate::wkt::{Duration, Timestamp};

#[cfg(test)]
mod tests;

/// The reason why a parameter or field is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadParameter {
    /// The value is not of the field's type.
    #[error("{name} is '{value}': {expected} is expected")]
    Value {
        /// The parameter.
        name: String,
        /// The given value.
        value: String,
        /// The expected type.
        expected: String,
    },
    /// A field that holds one value was given several times.
    #[error("{name} is given {count} times: give it once")]
    Several {
        /// The parameter.
        name: String,
        /// The number of values that were given.
        count: usize,
    },
    /// No field has this name.
    #[error("{0}")]
    Unknown(UnknownName),
    /// The field belongs to the body.
    #[error("{name} cannot be given in the query: it belongs in the body")]
    InBody {
        /// The parameter.
        name: String,
    },
    /// The field is an object, which a parameter cannot express.
    #[error("{name} cannot be given in the query: it is an object")]
    Object {
        /// The parameter.
        name: String,
    },
}

/// Returns the field with this name in the `.proto` file or in JSON.
pub(crate) fn field(message: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name))
}

/// Returns true if this is the name of the field in the `.proto` file or in JSON.
pub(crate) fn has_name(field: &FieldDescriptor, name: &str) -> bool {
    field.name() == name || field.json_name() == name
}

/// The fields that other parts of a request fill.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bound<'r> {
    /// The fields bound by segments of the path.
    pub path: &'r [&'r str],
    /// The fields bound by the body.
    pub body: Option<&'r str>,
}

/// Reads a query string into a JSON object.
///
/// A package that ignores unknown names also ignores bound fields here. A strict package refuses the fields of the
/// body, and accepts those of the path, to be compared with the path.
pub fn read(
    message: &MessageDescriptor,
    query: &str,
    bound: Bound<'_>,
    unknown: UnknownNames,
) -> Result<Map<String, Value>, BadParameter> {
    let mut given: Vec<(String, Vec<String>)> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match given.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value.into_owned()),
            None => given.push((name.into_owned(), vec![value.into_owned()])),
        }
    }
    let mut object = Map::new();
    for (name, values) in given {
        let top = field(message, name.split('.').next().unwrap_or_default());
        let is = |bound: &str| top.as_ref().is_some_and(|top| top.name() == bound);
        let in_body = bound.body.is_some_and(is);
        match unknown {
            UnknownNames::Ignored if in_body || bound.path.iter().any(|name| is(name)) => continue,
            UnknownNames::Refused if in_body => return Err(BadParameter::InBody { name }),
            _ => {}
        }
        match put(message, &mut object, &name, &name, &values) {
            Err(BadParameter::Unknown(_)) if unknown == UnknownNames::Ignored => {}
            result => result?,
        }
    }
    Ok(object)
}

/// Reads one value of a field at the top of a message.
pub(crate) fn value(
    message: &MessageDescriptor,
    name: &str,
    given: &str,
) -> Result<Option<(FieldDescriptor, Value)>, BadParameter> {
    let Some(field) = field(message, name) else { return Ok(None) };
    let value = single(&field, name, given)?;
    Ok(Some((field, value)))
}

fn put(
    message: &MessageDescriptor,
    object: &mut Map<String, Value>,
    path: &str,
    name: &str,
    values: &[String],
) -> Result<(), BadParameter> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let unknown =
        |fields: &[FieldDescriptor], part: &str| BadParameter::Unknown(UnknownName::new(name, part, fields));
    let Some(field) = field(message, first) else {
        return Err(unknown(&message.fields().collect::<Vec<_>>(), first));
    };
    let Some(rest) = rest else {
        let earlier = object.insert(field.json_name().to_owned(), leaf(&field, name, values)?);
        // The field was given under its other spelling too.
        return match earlier {
            Some(_) => Err(BadParameter::Several { name: name.to_owned(), count: values.len() + 1 }),
            None => Ok(()),
        };
    };
    let Kind::Message(inner) = field.kind() else { return Err(unknown(&[], rest)) };
    if field.is_list() || field.is_map() {
        return Err(unknown(&[], rest));
    }
    let entry = object.entry(field.json_name()).or_insert_with(|| Value::Object(Map::new()));
    match entry {
        Value::Object(members) => put(&inner, members, rest, name, values),
        _ => Err(unknown(&[], rest)),
    }
}

fn leaf(field: &FieldDescriptor, name: &str, values: &[String]) -> Result<Value, BadParameter> {
    if field.is_map() {
        return Err(BadParameter::Object { name: name.to_owned() });
    }
    if field.is_list() {
        return values.iter().map(|value| single(field, name, value)).collect();
    }
    match values {
        [value] => single(field, name, value),
        _ if is_mask(field) => single(field, name, &values.join(",")),
        _ => Err(BadParameter::Several { name: name.to_owned(), count: values.len() }),
    }
}

fn is_mask(field: &FieldDescriptor) -> bool {
    matches!(field.kind(), Kind::Message(message) if message.full_name() == "google.protobuf.FieldMask")
}

fn single(field: &FieldDescriptor, name: &str, given: &str) -> Result<Value, BadParameter> {
    let bad = |expected: &str| BadParameter::Value {
        name: name.to_owned(),
        value: given.to_owned(),
        expected: expected.to_owned(),
    };
    let parsed = match field.kind() {
        Kind::String | Kind::Bytes => Some(Value::from(given)),
        Kind::Bool => match given {
            "true" | "1" => Some(Value::Bool(true)),
            "false" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => parse::<i32>(given),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => parse::<i64>(given),
        Kind::Uint32 | Kind::Fixed32 => parse::<u32>(given),
        Kind::Uint64 | Kind::Fixed64 => parse::<u64>(given),
        Kind::Double | Kind::Float => parse::<f64>(given).filter(Value::is_number),
        Kind::Enum(words) => words
            .get_value_by_name(given)
            .or_else(|| given.parse().ok().and_then(|number| words.get_value(number)))
            .map(|value| Value::from(value.number())),
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Timestamp" => {
                serde_json::from_value::<Timestamp>(given.into()).ok().map(|_| given.into())
            }
            "google.protobuf.Duration" => given.parse::<Duration>().ok().map(|_| given.into()),
            "google.protobuf.FieldMask" => Some(Value::from(given)),
            _ => return Err(BadParameter::Object { name: name.to_owned() }),
        },
    };
    parsed.ok_or_else(|| bad(&expected(&field.kind())))
}

fn parse<T: FromStr + Into<Value>>(given: &str) -> Option<Value> {
    given.parse::<T>().ok().map(Into::into)
}

/// Describes the expected JSON type of a value of this kind.
pub(crate) fn expected(kind: &Kind) -> String {
    let from_to = |least: &str, most: &str| format!("a whole number from {least} to {most}");
    match kind {
        Kind::String | Kind::Bytes => "text".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Double | Kind::Float => "a number".to_owned(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => from_to(&i32::MIN.to_string(), &i32::MAX.to_string()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => from_to(&i64::MIN.to_string(), &i64::MAX.to_string()),
        Kind::Uint32 | Kind::Fixed32 => from_to("0", &u32::MAX.to_string()),
        Kind::Uint64 | Kind::Fixed64 => from_to("0", &u64::MAX.to_string()),
        Kind::Enum(words) => {
            let words: Vec<String> = words.values().map(|value| value.name().to_owned()).collect();
            format!("one of {}", words.join(", "))
        }
        Kind::Message(message) => match message.full_name() {
            "google.protobuf.Duration" => "a duration such as 30s or 10m".to_owned(),
            "google.protobuf.Timestamp" => "a moment such as 2026-01-31T12:00:00Z".to_owned(),
            "google.protobuf.FieldMask" => "text such as labels,timeout".to_owned(),
            _ => "an object".to_owned(),
        },
    }
}
