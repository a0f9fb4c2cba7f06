//! The envelope around the properties of every profile and policy.

use serde_json::{Map, Value};

use super::{Property, Schema, SpecError, shown};

const ENVELOPE: Schema = Schema(&[
    ("type", Property::string("Name of the type.").required()),
    ("version", Property::string("Version number of the type.").required()),
    ("description", Property::string("A text description.").default_text("")),
    ("properties", Property::free_map("Properties for the type.").required()),
]);

/// A specification of which only the type has been read.
///
/// The type is looked up first, and properties are checked only if it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The type's name, such as `senlin.policy.deletion`.
    pub name: String,
    /// The type's version, such as `1.1`; it may be given as a number.
    pub version: String,
    whole: &'a Map<String, Value>,
}

impl<'a> Envelope<'a> {
    /// Reads the type of a specification.
    pub fn read(spec: &'a Value) -> Result<Self, SpecError> {
        let whole = spec.as_object().ok_or(SpecError::NotASpec)?;
        let part = |key: &'static str| {
            whole.get(key).filter(|value| !value.is_null()).map(shown).ok_or(SpecError::KeyMissing { key })
        };
        Ok(Self { name: part("type")?, version: part("version")?, whole })
    }

    /// The type and its version in one, such as `senlin.policy.deletion-1.1`.
    pub fn kind(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// The whole specification as it was given.
    pub const fn whole(&self) -> &'a Map<String, Value> {
        self.whole
    }

    /// The properties as they were given; an error if another field of the specification is invalid.
    pub fn properties(&self) -> Result<&'a Map<String, Value>, SpecError> {
        ENVELOPE.resolve(self.whole)?;
        let properties = self.whole.get("properties").and_then(Value::as_object);
        properties.ok_or_else(|| SpecError::Missing { name: "properties".to_owned() })
    }
}
