//! Sets of fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `google.protobuf.FieldMask`; in JSON one text of names with commas. Held in `snake_case`, whichever came.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct FieldMask {
    /// Names of fields, with dots into messages.
    #[prost(string, repeated, tag = "1")]
    pub paths: Vec<String>,
}

/// A name as the `.proto` files write it.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut raise = false;
    for letter in name.chars() {
        if letter == '_' {
            raise = true;
        } else {
            camel.push(if raise { letter.to_ascii_uppercase() } else { letter });
            raise = false;
        }
    }
    camel
}

impl Serialize for FieldMask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let paths: Vec<String> = self.paths.iter().map(|path| camel_case(path)).collect();
        serializer.serialize_str(&paths.join(","))
    }
}

impl<'de> Deserialize<'de> for FieldMask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let paths = text.split(',').map(str::trim).filter(|path| !path.is_empty());
        Ok(Self { paths: paths.map(snake_case).collect() })
    }
}
