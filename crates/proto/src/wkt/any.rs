//! `Any`, a message of any type, and `Empty`, a message without fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `google.protobuf.Any`. In JSON the value is base64, since the type is not resolved.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Any {
    /// The URL of the type.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct AnyJson {
    #[serde(rename = "@type")]
    type_url: String,
    #[serde(default)]
    value: String,
}

impl Serialize for Any {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AnyJson { type_url: self.type_url.clone(), value: STANDARD.encode(&self.value) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let AnyJson { type_url, value } = AnyJson::deserialize(deserializer)?;
        let value = STANDARD.decode(value).map_err(serde::de::Error::custom)?;
        Ok(Self { type_url, value })
    }
}

/// `google.protobuf.Empty`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct Empty {}
