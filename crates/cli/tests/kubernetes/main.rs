//! The real server and its commands on a real Kubernetes.

mod app_harness;
mod apps;
mod apps_drivers;
mod apps_faults;
mod apps_marks;
mod apps_outage;
mod apps_successors;
mod chaos;
mod commands;
mod compute_templates;
mod config_sets;
mod everyday;
mod harness;
mod images;
mod jobs;
mod killed;
mod kuberay_clients;
mod kuberay_edges;
mod logs;
mod machine_objects;
mod machines;
#[path = "../laptop/page.rs"]
#[expect(dead_code, reason = "the quick start uses more of it")]
mod page;
mod replicas;
mod scaler;
mod scaler_without_operator;
#[path = "../serve/server.rs"]
#[expect(dead_code, reason = "other suites use more of it")]
mod server;
