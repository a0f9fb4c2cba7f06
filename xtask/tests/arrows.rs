//! The dependency rule of the workspace: dependencies point down only.
//!
//! `docs/architecture.md` draws the layers; this is the same rule as a table, checked against `cargo metadata`.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace that each crate may depend on.
const MAY_SEE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("frameworks", &["core"]),
    ("framework-client", &["core", "frameworks"]),
    ("store", &["core"]),
    ("engine", &["core", "store"]),
    ("local", &["core", "frameworks", "framework-client", "store", "engine"]),
    ("kube", &["core", "frameworks", "framework-client", "store", "engine"]),
    ("egress", &["core", "engine"]),
    ("machines", &["core"]),
    ("proto", &["core"]),
    ("service", &["core", "frameworks", "store", "engine"]),
    // `engine` and `store` are reached through `service`.
    ("api", &["core", "service", "proto"]),
    (
        "cli",
        &[
            "core",
            "frameworks",
            "store",
            "engine",
            "service",
            "local",
            "kube",
            "machines",
            "egress",
            "proto",
            "api",
        ],
    ),
    ("testkit", &["core", "frameworks", "store", "engine", "proto", "testkit-macros"]),
    ("testkit-macros", &[]),
    ("bench", &["core", "frameworks", "machines", "store", "engine", "proto", "testkit"]),
];

/// The crates that may depend on a family of libraries (`kube`, `kube-…`). Unlisted libraries may be used anywhere.
const STANDS_ONLY_IN: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("rusqlite", &["store", "testkit", "bench"]),
    ("kube", &["kube", "machines", "testkit", "bench"]),
    ("k8s-openapi", &["kube", "machines", "testkit", "bench"]),
    ("axum", &["api", "machines", "bench"]),
    ("tonic", &["proto", "api", "cli"]),
];

/// Libraries that pure crates must not depend on.
const NOT_IN: &[(&str, &[&str])] = &[("tokio", &["core", "frameworks"])];

/// One dependency in a manifest.
#[derive(Clone, Copy)]
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    for_tests: bool,
}

fn violation(edge: Edge) -> Option<String> {
    let Edge { from, to, for_tests } = edge;
    let says = |why: String| Some(format!("`{from}` must not depend on `{to}`: {why}"));
    if let Some(to) = to.strip_prefix("muster-") {
        let Some((_, seen)) = MAY_SEE.iter().find(|(name, _)| *name == from) else {
            return says(format!("`{from}` has no row in the table MAY_SEE yet; give it its place"));
        };
        return match to {
            "testkit" if for_tests => None,
            "testkit" if from != "bench" => says("the testkit is for tests only (dev-dependencies)".into()),
            to if seen.contains(&to) => None,
            _ => says(format!("arrows point down only, and `{from}` may see {seen:?}")),
        };
    }
    // Tests may use the libraries of clients; only the shipped code has to keep the layers.
    if let Some((_, rooms)) = STANDS_ONLY_IN.iter().find(|(family, _)| is_of(family, to) && !for_tests)
        && !rooms.contains(&from)
    {
        return says(format!("`{to}` stands only in {rooms:?}"));
    }
    let (_, without) = NOT_IN.iter().find(|(family, _)| is_of(family, to))?;
    without
        .contains(&from)
        .then(|| format!("`{from}` must not depend on `{to}`: it is pure, no I/O and no async"))
}

fn is_of(family: &str, library: &str) -> bool {
    library.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Every crate of this workspace, without the tasks.
fn members(metadata: &Value) -> BTreeSet<String> {
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    names.filter(|name| *name != "xtask").map(|name| name.trim_start_matches("muster-").to_owned()).collect()
}

/// Every dependency in the manifests of this workspace.
fn edges(metadata: &Value) -> Vec<(String, String, bool)> {
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let text = |value: &Value| value.as_str().expect("a name is a string").to_owned();
    let of_package = |package: &Value| {
        let from = text(&package["name"]).trim_start_matches("muster-").to_owned();
        let dependencies = package["dependencies"].as_array().expect("a package lists dependencies").clone();
        dependencies.into_iter().map(move |to| (from.clone(), text(&to["name"]), to["kind"] == "dev"))
    };
    packages.iter().flat_map(of_package).collect()
}

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--format-version", "1", "--offline", "--locked"];
    let output = Command::new(cargo).args(arguments).output().expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

#[test]
fn arrows_point_down_only() {
    let found = edges(&metadata());
    let violations: Vec<String> = found
        .iter()
        .filter_map(|(from, to, for_tests)| violation(Edge { from, to, for_tests: *for_tests }))
        .collect();
    assert!(violations.is_empty(), "forbidden edges:\n{}", violations.join("\n"));
}

#[test]
fn every_crate_has_its_place() {
    let members = members(&metadata());
    assert!(members.contains("core") && members.contains("cli"), "the crates were not found: {members:?}");
    let without: Vec<&String> =
        members.iter().filter(|member| !MAY_SEE.iter().any(|(name, _)| name == member)).collect();
    assert!(without.is_empty(), "these have no row in the table MAY_SEE: {without:?}");
}

#[test]
fn a_forbidden_edge_is_named_in_a_sentence() {
    let shipped = |from, to| violation(Edge { from, to, for_tests: false });
    let sentence = |from, to| shipped(from, to).expect("this edge is forbidden");
    assert!(
        sentence("core", "muster-store")
            .starts_with("`core` must not depend on `muster-store`: arrows point down")
    );
    assert!(sentence("engine", "muster-local").contains("`engine` must not depend on `muster-local`"));
    assert!(sentence("engine", "muster-service").contains("arrows point down only"));
    assert!(sentence("api", "muster-engine").contains("arrows point down only"));
    assert!(sentence("api", "muster-store").contains("arrows point down only"));
    assert!(sentence("service", "muster-api").contains("arrows point down only"));
    assert!(sentence("local", "muster-api").contains("arrows point down only"));
    assert!(sentence("api", "sqlx").contains("`sqlx` stands only in [\"store\"]"));
    assert!(sentence("api", "sqlx-core").contains("`sqlx-core` stands only in"));
    assert!(sentence("engine", "kube-runtime").contains("`kube-runtime` stands only in"));
    assert!(sentence("engine", "axum-server").contains("`axum-server` stands only in"));
    assert!(sentence("store", "tonic-health").contains("`tonic-health` stands only in"));
    assert!(sentence("core", "tokio-util").contains("it is pure"));
    assert!(sentence("core", "tokio").contains("it is pure"));
    assert!(sentence("cli", "muster-testkit").contains("for tests only"));
    assert!(sentence("attic", "muster-core").contains("has no row"));
    assert_eq!(shipped("engine", "muster-store"), None);
    assert_eq!(shipped("api", "tonic"), None);
}

#[test]
fn tests_may_use_the_testkit_and_clients_but_pure_crates_stay_pure() {
    let in_tests = |from, to| violation(Edge { from, to, for_tests: true });
    assert_eq!(in_tests("engine", "muster-testkit"), None);
    assert_eq!(in_tests("cli", "kube"), None);
    assert!(in_tests("core", "tokio").is_some());
    assert!(in_tests("engine", "muster-local").is_some());
}
