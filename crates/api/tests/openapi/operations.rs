//! Converts methods of the core API to OpenAPI operations.

use muster_proto::descriptor::POOL;
use muster_proto::rest::{Body, Method, Rule};
use prost_reflect::{FieldDescriptor, Kind, MethodDescriptor};
use serde_json::{Value, json};

use crate::schemas::{Schemas, comment};

fn descriptor(method: &Method) -> MethodDescriptor {
    let (service, name) = method.grpc_path.trim_start_matches('/').split_once('/').expect("a path");
    let service = POOL.get_service_by_name(service).expect("a service");
    service.methods().find(|method| method.name() == name).expect("a method")
}

/// The tag of the operations of a service.
fn tag(method: &Method) -> String {
    let descriptor = descriptor(method);
    let service = descriptor.parent_service();
    let version = if service.package_name() == "proto" { "v1" } else { "v1alpha2" };
    format!("{version} {}", service.name())
}

/// Describes a service as a tag.
pub(crate) fn service(method: &Method) -> Value {
    let descriptor = descriptor(method);
    let service = descriptor.parent_service();
    json!({"name": tag(method), "description": comment(&service.parent_file(), service.path())})
}

/// Describes one HTTP route of a method.
pub(crate) fn operation(method: &Method, rule: &Rule, schemas: &mut Schemas) -> Value {
    let descriptor = descriptor(method);
    let request = descriptor.input();
    let in_path: Vec<&str> = rule.parameters().collect();
    let mut parameters = Vec::new();
    for field in request.fields() {
        let is_in_path = in_path.contains(&field.name());
        let is_in_body = match rule.body {
            Body::None => false,
            Body::Whole => !is_in_path,
            Body::Field(body) => body == field.name(),
        };
        match field.kind() {
            _ if is_in_body => {}
            // A query names the fields of an object one by one.
            Kind::Message(object) if object.package_name() == request.package_name() => {
                parameters.extend(object.fields().map(|inner| {
                    let name = format!("{}.{}", field.name(), inner.name());
                    parameter(&inner, &name, false, schemas)
                }));
            }
            _ => parameters.push(parameter(&field, field.name(), is_in_path, schemas)),
        }
    }
    let about = comment(&descriptor.parent_file(), descriptor.path());
    let summary = about.split(['.', ';']).next().unwrap_or(&about);
    let mut operation = json!({
        "operationId": operation_id(method, rule),
        "summary": summary,
        "description": about,
        "tags": [tag(method)],
        "parameters": parameters,
        "responses": {"200": answer(&descriptor, schemas), "default": {"$ref": error(&descriptor)}},
    });
    let body = match rule.body {
        Body::None => None,
        Body::Whole => Some(schemas.of_message(&request)),
        Body::Field(name) => request.get_field_by_name(name).map(|field| schemas.of_field(&field)),
    };
    if let Some(schema) = body {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
    }
    operation
}

/// Returns a unique name for each HTTP route of a method.
fn operation_id(method: &Method, rule: &Rule) -> String {
    let version = if method.grpc_path.starts_with("/proto.") { "v1" } else { "v1alpha2" };
    let (service, name) = method.grpc_path.rsplit_once('/').expect("a path");
    let service = service.rsplit('.').next().unwrap_or(service);
    let way = method.rules.iter().position(|other| other.path == rule.path).unwrap_or(0);
    let number = if way == 0 { String::new() } else { format!("_{}", way + 1) };
    format!("{version}_{service}_{name}{number}")
}

fn parameter(field: &FieldDescriptor, name: &str, is_in_path: bool, schemas: &mut Schemas) -> Value {
    let mut schema = schemas.of_field(field);
    let about = schema.as_object_mut().and_then(|schema| schema.remove("description")).unwrap_or_default();
    let place = if is_in_path { "path" } else { "query" };
    json!({"name": name, "in": place, "required": is_in_path, "description": about, "schema": schema})
}

fn answer(method: &MethodDescriptor, schemas: &mut Schemas) -> Value {
    let schema = json!({"schema": schemas.of_message(&method.output())});
    if method.is_server_streaming() {
        let content = json!({"application/x-ndjson": schema, "text/event-stream": schema});
        return json!({"description": "One object a line, as they come.", "content": content});
    }
    json!({"description": "Success.", "content": {"application/json": schema}})
}

fn error(method: &MethodDescriptor) -> &'static str {
    match method.parent_service().package_name() {
        "proto" => "#/components/responses/v1Error",
        _ => "#/components/responses/Error",
    }
}
