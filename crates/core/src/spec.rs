//! Schemas of profile types, policy types and operations.
//!
//! A schema is a constant. It describes itself as the API shows it, checks given properties with the error messages
//! that clients compare, and reads them with defaults filled in:
//!
//! ```
//! use muster_core::spec::{Property, Schema};
//!
//! const SCHEMA: Schema = Schema(&[
//!     ("event", Property::string("The kind of action.").required().allowed(&["IN", "OUT"])),
//!     ("cooldown", Property::integer("Seconds of cooldown.").default_int(0)),
//! ]);
//!
//! let given = serde_json::json!({"event": "IN", "cooldown": "30"});
//! let read = SCHEMA.resolve(given.as_object().unwrap()).unwrap();
//! assert_eq!(read["cooldown"], 30);
//! ```

mod describe;
mod envelope;
mod resolve;
mod shown;
mod stored;

use serde_json::{Map, Value};

pub use envelope::Envelope;
pub use shown::{listed, printed, quoted, shown};

/// The properties of a specification, in the order in which they are listed and checked.
#[derive(Debug, Clone, Copy)]
pub struct Schema(pub &'static [(&'static str, Property)]);

/// One property of a specification.
#[derive(Debug, Clone, Copy)]
pub struct Property {
    kind: PropertyKind,
    description: &'static str,
    required: bool,
    updatable: bool,
    default: Option<Literal>,
    allowed: &'static [&'static str],
    /// True if an absent map is read as an empty one, so that the defaults of its properties apply.
    filled: bool,
}

#[derive(Debug, Clone, Copy)]
enum PropertyKind {
    Boolean,
    Integer,
    Number,
    String,
    List(&'static Property),
    Map(Option<Schema>),
}

#[derive(Debug, Clone, Copy)]
enum Literal {
    Flag(bool),
    Int(i64),
    Text(&'static str),
    EmptyList,
    EmptyMap,
}

/// The reason why a specification is refused, with the message that existing clients compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum SpecError {
    #[error("The provided spec is not a map.")]
    NotASpec,
    #[error("The '{key}' key is missing from the provided spec map.")]
    KeyMissing { key: &'static str },
    #[error("Required spec item '{name}' not provided")]
    Missing { name: String },
    #[error("Unrecognizable spec item '{name}'")]
    Unknown { name: String },
    #[error("'{value}' must be one of the allowed values: {allowed}")]
    NotAllowed { value: String, allowed: String },
    #[error("The value '{value}' is not a valid {what}")]
    NotA { value: String, what: &'static str },
    #[error("'{value}' is not a {what}")]
    NotACollection { value: String, what: &'static str },
}

impl Property {
    const fn new(kind: PropertyKind, description: &'static str) -> Self {
        Self {
            kind,
            description,
            required: false,
            updatable: false,
            default: None,
            allowed: &[],
            filled: false,
        }
    }

    /// A boolean property.
    pub const fn boolean(description: &'static str) -> Self {
        Self::new(PropertyKind::Boolean, description)
    }

    /// A property that is a whole number.
    pub const fn integer(description: &'static str) -> Self {
        Self::new(PropertyKind::Integer, description)
    }

    /// A property that is a number.
    pub const fn number(description: &'static str) -> Self {
        Self::new(PropertyKind::Number, description)
    }

    /// A property that is a text.
    pub const fn string(description: &'static str) -> Self {
        Self::new(PropertyKind::String, description)
    }

    /// A property that is a list of items of one kind.
    pub const fn list(description: &'static str, item: &'static Self) -> Self {
        Self::new(PropertyKind::List(item), description)
    }

    /// A property that is a map with known keys.
    pub const fn map(description: &'static str, schema: Schema) -> Self {
        Self::new(PropertyKind::Map(Some(schema)), description)
    }

    /// A property that is a map with arbitrary keys.
    pub const fn free_map(description: &'static str) -> Self {
        Self::new(PropertyKind::Map(None), description)
    }

    /// Marks the property as required.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Marks the property as updatable.
    #[must_use]
    pub const fn updatable(self) -> Self {
        Self { updatable: true, ..self }
    }

    /// Reads an absent map as an empty one, so that the defaults of its properties apply.
    #[must_use]
    pub const fn filled(self) -> Self {
        Self { filled: true, ..self }
    }

    /// Allows only these values.
    #[must_use]
    pub const fn allowed(self, allowed: &'static [&'static str]) -> Self {
        Self { allowed, ..self }
    }

    /// Sets the default value.
    #[must_use]
    pub const fn default_flag(self, value: bool) -> Self {
        Self { default: Some(Literal::Flag(value)), ..self }
    }

    /// Sets the default value.
    #[must_use]
    pub const fn default_int(self, value: i64) -> Self {
        Self { default: Some(Literal::Int(value)), ..self }
    }

    /// Sets the default value.
    #[must_use]
    pub const fn default_text(self, value: &'static str) -> Self {
        Self { default: Some(Literal::Text(value)), ..self }
    }

    /// Sets the default value to an empty list or map.
    #[must_use]
    pub const fn default_empty(self) -> Self {
        let empty = match self.kind {
            PropertyKind::List(_) => Literal::EmptyList,
            _ => Literal::EmptyMap,
        };
        Self { default: Some(empty), ..self }
    }
}

impl Literal {
    fn value(self) -> Value {
        match self {
            Self::Flag(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Text(value) => value.into(),
            Self::EmptyList => Value::Array(Vec::new()),
            Self::EmptyMap => Value::Object(Map::new()),
        }
    }
}

impl Schema {
    /// The names of all properties, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// The property of this name.
    pub fn get(&self, name: &str) -> Option<&'static Property> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, property)| property)
    }

    /// The names of properties that differ although they are not updatable.
    pub fn frozen_changes(
        &self,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) -> Vec<&'static str> {
        let given = |properties: &Map<String, Value>, name: &str| {
            properties.get(name).filter(|value| !value.is_null()).cloned()
        };
        let frozen = self.0.iter().filter(|(_, property)| !property.updatable);
        frozen.filter(|(name, _)| given(before, name) != given(after, name)).map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests;
