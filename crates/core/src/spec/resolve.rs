//! Checks given properties, and reads them with the defaults filled in.

use serde_json::{Map, Number, Value};

use super::{Property, PropertyKind, Schema, SpecError, shown};

impl Schema {
    /// Reads each given property by its type, and adds the defaults of absent ones. Null counts as absent.
    ///
    /// Properties are checked in the order of the schema, and then those that the schema does not know.
    pub fn resolve(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, SpecError> {
        let mut resolved = Map::new();
        for (name, property) in self.0 {
            let value = match given.get(*name).filter(|value| !value.is_null()) {
                Some(value) => Some(property.resolve(value)?),
                None => property.absent(name)?,
            };
            if let Some(value) = value {
                resolved.insert((*name).to_owned(), value);
            }
        }
        match given.keys().find(|name| self.get(name).is_none()) {
            Some(name) => Err(SpecError::Unknown { name: name.clone() }),
            None => Ok(resolved),
        }
    }

    /// Checks the given properties without returning them.
    pub fn validate(&self, given: &Map<String, Value>) -> Result<(), SpecError> {
        self.resolve(given).map(drop)
    }
}

impl Property {
    fn absent(&self, name: &str) -> Result<Option<Value>, SpecError> {
        if self.required {
            return Err(SpecError::Missing { name: name.to_owned() });
        }
        match (self.default, self.kind) {
            (Some(default), _) => Ok(Some(default.value())),
            (None, PropertyKind::Map(Some(schema))) if self.filled => {
                Ok(Some(Value::Object(schema.resolve(&Map::new())?)))
            }
            _ => Ok(None),
        }
    }

    fn resolve(&self, value: &Value) -> Result<Value, SpecError> {
        let read = self.kind.read(value)?;
        match read.as_str() {
            Some(word) if !self.allowed.is_empty() && !self.allowed.contains(&word) => {
                Err(SpecError::NotAllowed { value: word.to_owned(), allowed: self.allowed.join(", ") })
            }
            _ => Ok(read),
        }
    }
}

impl PropertyKind {
    fn read(self, value: &Value) -> Result<Value, SpecError> {
        let not_a = |what| SpecError::NotA { value: shown(value), what };
        let no_collection = |what| SpecError::NotACollection { value: shown(value), what };
        match self {
            Self::Boolean => flag(value).map(Value::Bool).ok_or_else(|| not_a("Boolean")),
            Self::Integer => whole(value).map(Value::from).ok_or_else(|| not_a("Integer")),
            Self::Number => number(value).map(Value::Number).ok_or_else(|| not_a("number.")),
            Self::String => text(value).map(Value::String).ok_or_else(|| not_a("string.")),
            Self::List(item) => {
                let items = value.as_array().ok_or_else(|| no_collection("List"))?;
                items.iter().map(|value| item.resolve(value)).collect::<Result<_, _>>().map(Value::Array)
            }
            Self::Map(schema) => {
                let entries = value.as_object().ok_or_else(|| no_collection("Map"))?;
                schema
                    .map_or_else(|| Ok(entries.clone()), |schema| schema.resolve(entries))
                    .map(Value::Object)
            }
        }
    }
}

/// Reads a boolean, in all spellings that existing clients send.
fn flag(value: &Value) -> Option<bool> {
    match shown(value).to_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(integral)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the bounds are checked, and there is no fraction")]
fn integral(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn number(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) => {
            let text = text.trim();
            let exact = text.parse::<i64>().ok().map(Number::from);
            exact.or_else(|| text.parse().ok().and_then(Number::from_f64))
        }
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_)).then(|| shown(value))
}
