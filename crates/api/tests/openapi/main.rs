//! Compares the OpenAPI document with the APIs.
//!
//! The part of the core API is generated from its `.proto` files and their comments. The other APIs come from
//! `other_apis.json`, whose paths and methods are compared with the tables of routes. After an intended change:
//! `MUSTER_BLESS=1 cargo test -p muster-api --test openapi`.

mod operations;
mod schemas;

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use muster_api::docs::OPENAPI;
use muster_api::{clustering, scaler};
use muster_proto::rest::METHODS;
use serde_json::{Map, Value, json};

use schemas::Schemas;

/// The parts of the document that are not in `.proto` files.
fn other_apis() -> Value {
    serde_json::from_str(include_str!("other_apis.json")).expect("JSON")
}

fn document() -> Value {
    let mut schemas = Schemas::default();
    let other = other_apis();
    let mut paths: Map<String, Value> = other["paths"].as_object().cloned().expect("paths");
    let mut tags = Vec::new();
    for method in METHODS {
        let described = operations::service(method);
        if !tags.contains(&described) {
            tags.push(described);
        }
        for rule in method.rules {
            let operation = operations::operation(method, rule, &mut schemas);
            let path = paths.entry(rule.path).or_insert_with(|| json!({}));
            path[rule.verb.as_str().to_lowercase()] = operation;
        }
    }
    tags.extend(other["tags"].as_array().cloned().expect("tags"));
    let mut components = other["components"].clone();
    let all = components["schemas"].as_object_mut().expect("schemas");
    all.extend(schemas.into_all());
    json!({
        "openapi": "3.1.0",
        "info": other["info"],
        "security": other["security"],
        "tags": tags,
        "paths": paths,
        "components": components,
    })
}

#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&document()).expect("JSON"));
    if env::var_os("MUSTER_BLESS").is_some() {
        fs::write(&path, &text).expect("the document can be written");
    }
    let checked_in = fs::read_to_string(&path).expect("the document");
    let differs = checked_in.lines().zip(text.lines()).find(|(before, now)| before != now);
    assert!(checked_in == text, "openapi.json is not what the APIs are; the first difference: {differs:?}");
}

#[test]
fn other_apis_have_exactly_the_routes_that_they_serve() {
    let served: BTreeSet<String> = clustering::CASES
        .iter()
        .map(|case| case.operation.replacen(" /", " /clustering/v1/", 1))
        .chain(scaler::CASES.iter().map(|case| case.operation.replacen(" /", " /ddl_cluster_scaler/", 1)))
        .chain(
            [
                "GET /clustering",
                "GET /clustering/v1",
                "GET /identity",
                "GET /identity/v3",
                "POST /identity/v3/auth/tokens",
                "GET /healthz",
                "GET /readyz",
                "GET /metrics",
            ]
            .map(str::to_owned),
        )
        .collect();
    let other = other_apis();
    let paths = other["paths"].as_object().expect("paths").iter();
    let described: BTreeSet<String> = paths
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(move |method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(described, served);
}

/// Every `$ref` below a value.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get("$ref") {
                found.insert(reference.clone());
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(array) => array.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
    let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let operations: Vec<&Value> = document["paths"]
        .as_object()
        .expect("paths")
        .values()
        .flat_map(|path| path.as_object().expect("methods").values())
        .collect();
    let names: BTreeSet<&str> =
        operations.iter().map(|operation| operation["operationId"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), operations.len());
    let undescribed: Vec<&&Value> = operations
        .iter()
        .filter(|operation| operation["summary"].as_str().is_none_or(str::is_empty))
        .collect();
    assert!(undescribed.is_empty(), "{undescribed:?}");
}
