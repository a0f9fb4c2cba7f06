//! The real server and its commands on a real Kubernetes.

mod apps;
mod apps_drivers;
mod apps_faults;
mod apps_outage;
mod chaos;
mod commands;
mod compute_templates;
mod config_sets;
mod harness;
mod images;
mod killed;
mod kuberay_clients;
mod logs;
mod machines;
mod replicas;
mod scaler;
mod scaler_without_operator;
#[path = "../serve/server.rs"]
#[expect(dead_code, reason = "other suites use more of it")]
mod server;
