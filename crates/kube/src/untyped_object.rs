//! Kubernetes objects of any kind as JSON, without `managedFields`.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The metadata of field managers, which is often larger than the object itself.
const MANAGED_FIELDS: &str = "managedFields";

/// An object of any kind.
#[derive(Debug, Clone)]
pub(crate) struct UntypedObject {
    /// The fields of the metadata that watches need.
    metadata: ObjectMeta,
    pub(crate) body: Value,
}

impl<'de> Deserialize<'de> for UntypedObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let body = from.deserialize_map(BodyVisitor)?;
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

/// Deserializes an object.
struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut body = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value =
                if key == "metadata" { map.next_value::<ObjectMetadata>()?.0 } else { map.next_value()? };
            body.insert(key, value);
        }
        Ok(Value::Object(body))
    }
}

/// The metadata of an object without `managedFields`.
pub(crate) struct ObjectMetadata(pub(crate) Value);

impl<'de> Deserialize<'de> for ObjectMetadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MetadataVisitor).map(Self)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the metadata of a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut metadata = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == MANAGED_FIELDS {
                map.next_value::<IgnoredAny>()?;
            } else {
                metadata.insert(key, map.next_value()?);
            }
        }
        Ok(Value::Object(metadata))
    }
}

impl Resource for UntypedObject {
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
    fn an_object_is_read_without_its_field_managers() {
        let text = r#"{"kind": "Thing", "metadata": {"name": "a", "managedFields": [{"x": {"f:spec": {}}}],
            "resourceVersion": "7", "labels": {"l": "1"}}, "spec": {"n": [1, null]}}"#;
        let object: UntypedObject = serde_json::from_str(text).unwrap();
        let metadata = json!({"name": "a", "resourceVersion": "7", "labels": {"l": "1"}});
        assert_eq!(object.body, json!({"kind": "Thing", "metadata": metadata, "spec": {"n": [1, null]}}));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert!(serde_json::from_str::<UntypedObject>("[]").is_err());
    }
}
