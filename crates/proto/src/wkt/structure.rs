//! `google.protobuf.Struct` and its values: JSON within messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value as Json};

/// 2^53: a double represents all smaller whole numbers exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// `google.protobuf.Struct`: a JSON object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    /// The members of the object.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value`: any JSON.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    /// The value; absent means null.
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<Kind>,
}

/// The kinds of JSON values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    /// Null.
    #[prost(int32, tag = "1")]
    Null(i32),
    /// A number.
    #[prost(double, tag = "2")]
    Number(f64),
    /// Text.
    #[prost(string, tag = "3")]
    Text(String),
    /// True or false.
    #[prost(bool, tag = "4")]
    Bool(bool),
    /// An object.
    #[prost(message, tag = "5")]
    Struct(Struct),
    /// An array.
    #[prost(message, tag = "6")]
    List(ListValue),
}

/// `google.protobuf.ListValue`: a JSON array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// The elements of the array.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

impl From<Map<String, Json>> for Struct {
    fn from(map: Map<String, Json>) -> Self {
        Self { fields: map.into_iter().map(|(name, value)| (name, value.into())).collect() }
    }
}

impl From<Struct> for Map<String, Json> {
    fn from(object: Struct) -> Self {
        object.fields.into_iter().map(|(name, value)| (name, value.into())).collect()
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        let kind = match json {
            Json::Null => Kind::Null(0),
            Json::Bool(value) => Kind::Bool(value),
            // The message type holds a double, so the last digits of large integers are lost.
            Json::Number(number) => Kind::Number(number.as_f64().unwrap_or_default()),
            Json::String(text) => Kind::Text(text),
            Json::Array(values) => {
                Kind::List(ListValue { values: values.into_iter().map(Self::from).collect() })
            }
            Json::Object(map) => Kind::Struct(map.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value.kind {
            None | Some(Kind::Null(_)) => Self::Null,
            Some(Kind::Bool(value)) => Self::Bool(value),
            Some(Kind::Number(number)) => whole_or_not(number).map_or(Self::Null, Self::Number),
            Some(Kind::Text(text)) => Self::String(text),
            Some(Kind::List(list)) => Self::Array(list.values.into_iter().map(Self::from).collect()),
            Some(Kind::Struct(object)) => Self::Object(object.into()),
        }
    }
}

/// Converts to a JSON number: a whole number without `.0`; none for NaN and infinity, which JSON does not have.
fn whole_or_not(number: f64) -> Option<Number> {
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and far from the ends of i64")]
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.fields)
    }
}

impl Serialize for ListValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.values)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kind {
            None | Some(Kind::Null(_)) => serializer.serialize_unit(),
            Some(Kind::Bool(value)) => serializer.serialize_bool(*value),
            Some(Kind::Number(number)) => whole_or_not(*number).serialize(serializer),
            Some(Kind::Text(text)) => serializer.serialize_str(text),
            Some(Kind::List(list)) => list.serialize(serializer),
            Some(Kind::Struct(object)) => object.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer).map(Self::from)
    }
}

impl<'de> Deserialize<'de> for ListValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<Json>::deserialize(deserializer)?;
        Ok(Self { values: values.into_iter().map(Value::from).collect() })
    }
}
