//! Schemas as the API shows them.

use serde_json::{Map, Value, json};

use super::{Property, PropertyKind, Schema};

/// The use of a described property, which determines the parts of its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// The property of a profile or policy, whose description has the flag `updatable`.
    Property,
    /// The parameter of an operation, which cannot be updated later.
    Parameter,
}

impl Schema {
    /// The description of the properties of a profile or policy type.
    pub fn to_json(&self) -> Value {
        self.described(Detail::Property)
    }

    /// The description of the parameters of an operation.
    pub fn to_parameters_json(&self) -> Value {
        self.described(Detail::Parameter)
    }

    fn described(&self, detail: Detail) -> Value {
        let entries = self.0.iter().map(|(name, property)| ((*name).to_owned(), property.described(detail)));
        Value::Object(entries.collect())
    }
}

impl Property {
    fn described(&self, detail: Detail) -> Value {
        let mut shown = Map::new();
        shown.insert("type".to_owned(), self.kind.name().into());
        shown.insert("description".to_owned(), self.description.into());
        shown.insert("required".to_owned(), self.required.into());
        if detail == Detail::Property {
            shown.insert("updatable".to_owned(), self.updatable.into());
        }
        if let Some(default) = self.default {
            shown.insert("default".to_owned(), default.value());
        }
        match self.kind {
            PropertyKind::List(item) => {
                shown.insert("schema".to_owned(), json!({"*": item.described(detail)}));
            }
            PropertyKind::Map(Some(schema)) => {
                shown.insert("schema".to_owned(), schema.described(detail));
            }
            _ => {}
        }
        if !self.allowed.is_empty() {
            let constraint = json!([{"type": "AllowedValues", "constraint": self.allowed}]);
            shown.insert("constraints".to_owned(), constraint);
        }
        Value::Object(shown)
    }
}

impl PropertyKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "Boolean",
            Self::Integer => "Integer",
            Self::Number => "Number",
            Self::String => "String",
            Self::List(_) => "List",
            Self::Map(_) => "Map",
        }
    }
}
