//! `google.protobuf.FieldMask`, a set of fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `google.protobuf.FieldMask`; in JSON one text of paths with commas. Paths are not converted, because only the masked
/// message can distinguish fields, in `snake_case` or `camelCase`, from keys of maps.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct FieldMask {
    /// The paths of fields, with dots between nested names.
    #[prost(string, repeated, tag = "1")]
    pub paths: Vec<String>,
}

/// Converts a JSON name to the spelling of the `.proto` files. A name that begins with a capital is not a JSON
/// name of a field, and is returned unchanged.
pub fn snake_case(name: &str) -> String {
    if name.starts_with(|first: char| first.is_ascii_uppercase()) {
        return name.to_owned();
    }
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

impl Serialize for FieldMask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.paths.join(","))
    }
}

impl<'de> Deserialize<'de> for FieldMask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let paths = text.split(',').map(str::trim).filter(|path| !path.is_empty());
        Ok(Self { paths: paths.map(str::to_owned).collect() })
    }
}
