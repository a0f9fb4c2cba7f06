//! Objects of any kind as plain JSON, without what nobody reads.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Who wrote which field: often more than all that is written there.
const WRITERS: &str = "managedFields";

/// An object, whatever it holds.
#[derive(Debug, Clone)]
pub(crate) struct PlainObject {
    /// As much as watches need.
    metadata: ObjectMeta,
    pub(crate) body: Value,
}

impl<'de> Deserialize<'de> for PlainObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let body = from.deserialize_map(Body)?;
        let text = |key: &str| body["metadata"][key].as_str().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, body })
    }
}

/// Reads an object.
struct Body;

impl<'de> Visitor<'de> for Body {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("an object of Kubernetes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut body = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = if key == "metadata" { map.next_value::<Metadata>()?.0 } else { map.next_value()? };
            body.insert(key, value);
        }
        Ok(Value::Object(body))
    }
}

/// Metadata without its writers.
pub(crate) struct Metadata(pub(crate) Value);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(WithoutWriters).map(Self)
    }
}

struct WithoutWriters;

impl<'de> Visitor<'de> for WithoutWriters {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("metadata of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut metadata = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == WRITERS {
                map.next_value::<IgnoredAny>()?;
            } else {
                metadata.insert(key, map.next_value()?);
            }
        }
        Ok(Value::Object(metadata))
    }
}

impl Resource for PlainObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_whole_but_for_who_wrote_it() {
        let text = r#"{"kind": "Thing", "metadata": {"name": "a", "managedFields": [{"x": {"f:spec": {}}}],
            "resourceVersion": "7", "labels": {"l": "1"}}, "spec": {"n": [1, null]}}"#;
        let object: PlainObject = serde_json::from_str(text).unwrap();
        let metadata = json!({"name": "a", "resourceVersion": "7", "labels": {"l": "1"}});
        assert_eq!(object.body, json!({"kind": "Thing", "metadata": metadata, "spec": {"n": [1, null]}}));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert!(serde_json::from_str::<PlainObject>("[]").is_err());
    }
}
