//! Converts messages to JSON schemas.

use std::collections::BTreeMap;

use prost_reflect::{EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// The schemas of messages, by their names.
#[derive(Default)]
pub(crate) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    pub(crate) fn into_all(self) -> BTreeMap<String, Value> {
        self.0
    }

    /// The schema of a message: a reference, unless it has a form of its own in JSON.
    pub(crate) fn of_message(&mut self, message: &MessageDescriptor) -> Value {
        match message.full_name() {
            "google.protobuf.Timestamp" => return json!({"type": "string", "format": "date-time"}),
            "google.protobuf.Duration" => {
                return json!({"type": "string", "description": "Seconds with an s behind, such as 30s."});
            }
            "google.protobuf.FieldMask" => {
                return json!({"type": "string", "description": "Paths of fields, with commas between."});
            }
            "google.protobuf.Struct" | "google.protobuf.Empty" => return json!({"type": "object"}),
            _ => {}
        }
        let name = name(message.full_name());
        if !self.0.contains_key(&name) {
            // Insert the name before the fields are read: they may refer to the message itself.
            self.0.insert(name.clone(), Value::Null);
            let properties: Map<String, Value> =
                message.fields().map(|field| (field.json_name().to_owned(), self.of_field(&field))).collect();
            let about = comment(&message.parent_file(), message.path());
            let schema = json!({"type": "object", "description": about, "properties": properties});
            self.0.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// The schema of a field, with its comment.
    pub(crate) fn of_field(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
            let values = self.of_kind(&entry.map_entry_value_field().kind());
            json!({"type": "object", "additionalProperties": values})
        } else if field.is_list() {
            json!({"type": "array", "items": self.of_kind(&field.kind())})
        } else {
            self.of_kind(&field.kind())
        };
        let about = comment(&field.parent_message().parent_file(), field.path());
        if let Some(rest) = about.strip_prefix("Output. ") {
            schema["readOnly"] = true.into();
            schema["description"] = rest.into();
        } else {
            schema["description"] = about.into();
        }
        schema
    }

    fn of_kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Message(message) => self.of_message(message),
            Kind::Enum(words) => of_enum(words),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "format": "byte"}),
            Kind::Float | Kind::Double => json!({"type": "number"}),
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => {
                json!({"type": "string", "format": "int64"})
            }
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "minimum": 0}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({"type": "integer", "format": "int32"}),
        }
    }
}

/// Responses contain numbers; requests may contain numbers or names.
fn of_enum(words: &EnumDescriptor) -> Value {
    let values: Vec<Value> =
        words.values().flat_map(|value| [json!(value.number()), json!(value.name())]).collect();
    json!({"enum": values})
}

/// The name of a schema: that of the message, and for package `proto` with its version.
pub(crate) fn name(full_name: &str) -> String {
    let short = full_name.rsplit('.').next().unwrap_or(full_name);
    if full_name.starts_with("proto.") { format!("v1.{short}") } else { short.to_owned() }
}

/// The comment before something in a `.proto` file, in one line.
pub(crate) fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let source = file.file_descriptor_proto().source_code_info.clone().unwrap_or_default();
    let found = source.location.into_iter().find(|location| location.path == path);
    let text = found.and_then(|location| location.leading_comments).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
