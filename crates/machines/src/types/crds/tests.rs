use serde_json::{Value, json, to_value};

use super::*;

fn schema(of: &CustomResourceDefinition) -> Value {
    let version = of.spec.versions.first().unwrap();
    to_value(version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap()).unwrap()
}

#[test]
fn names_are_those_of_the_published_operator() {
    let named = crds().map(|crd| {
        (crd.metadata.name.unwrap(), crd.spec.scope, crd.spec.names.kind, crd.spec.names.short_names)
    });
    let scope = "Cluster".to_owned();
    assert_eq!(
        named,
        [
            ("machines.imperator.tenzen-y.io".to_owned(), scope.clone(), "Machine".to_owned(), None),
            ("machinenodepools.imperator.tenzen-y.io".to_owned(), scope, "MachineNodePool".to_owned(), None),
        ]
    );
}

#[test]
fn fields_are_required_and_bounded_as_the_contract_says() {
    let spec = schema(&crds()[0])["properties"]["spec"].clone();
    assert_eq!(spec["required"], json!(["machineTypes", "nodePool"]));
    let entry = &spec["properties"]["nodePool"]["items"];
    assert_eq!(entry["required"], json!(["machineType", "mode", "name"]));
    assert_eq!(entry["properties"]["mode"]["enum"], json!(["ready", "maintenance"]));
    let of_type = &spec["properties"]["machineTypes"]["items"];
    assert_eq!(of_type["properties"]["available"]["minimum"], json!(0.0));
    assert_eq!(of_type["properties"]["available"]["format"], "int32");
    for amount in ["/spec/properties/cpu", "/spec/properties/memory", "/spec/properties/gpu/properties/num"] {
        let schema = of_type["properties"].pointer(amount).unwrap();
        assert_eq!(schema["x-kubernetes-int-or-string"], json!(true), "{amount}: {schema}");
    }
    assert_eq!(spec["properties"]["overflow"]["enum"], json!(["wait", "deny"]));
}

#[test]
fn the_status_of_a_pool_has_all_five_conditions() {
    let schema = schema(&crds()[1]);
    let condition = schema.pointer("/properties/status/properties/nodePool/items/properties/condition/enum");
    assert_eq!(condition, Some(&json!(["Ready", "Maintenance", "NotReady", "Healthy", "Unhealthy"])));
}

#[test]
fn printer_columns_are_group_and_ready() {
    for (crd, group) in
        crds().iter().zip([r".metadata.labels.imperator\.tenzen-y\.io/machine-group", ".spec.machineGroup"])
    {
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
        let columns: Vec<_> =
            columns.iter().map(|column| (column.name.as_str(), column.json_path.as_str())).collect();
        assert_eq!(
            columns,
            [("Group", group), ("Ready", r#".status.conditions[?(@.type=="Ready")].status"#)]
        );
    }
}

#[test]
fn a_definition_stores_all_fields_if_it_has_ours_and_any_others() {
    let changed = |number: usize, change: Value| {
        let mut found = to_value(&crds()[number]).unwrap();
        json_patch::merge(&mut found["spec"]["versions"][0], &change);
        stores_all_fields(&serde_json::from_value(found).unwrap(), &crds()[number])
    };
    let of_status =
        |properties: Value| json!({"schema": {"openAPIV3Schema": {"properties": {"status": properties}}}});
    let booking = |uid: Value| json!({"properties": {"bookings": {"items": {"properties": {"uid": uid}}}}});
    assert!(changed(0, json!({})));
    assert!(changed(0, of_status(json!({"properties": {"more": {"type": "string"}}}))));
    assert!(!changed(0, of_status(json!({"properties": {"bookings": null}}))), "the ledger would be dropped");
    assert!(!changed(0, of_status(booking(Value::Null))));
    assert!(changed(0, of_status(json!({"properties": null, "x-kubernetes-preserve-unknown-fields": true}))));
    assert!(!changed(0, json!({"subresources": null})));
    assert!(!changed(0, json!({"served": false})));
    let spec = json!({"properties": {"machineGroup": null, "machineGroupName": {"type": "string"}}});
    assert!(!changed(1, json!({"schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}})));
}

#[test]
fn slots_are_as_many_as_a_stateful_set_can_have() {
    let schema = schema(&crds()[0]);
    let available = schema
        .pointer("/properties/spec/properties/machineTypes/items/properties/available/maximum")
        .and_then(Value::as_f64);
    assert_eq!(available, Some(f64::from(i32::MAX)));
}
