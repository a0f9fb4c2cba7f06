//! Tests of the real server over HTTP and gRPC.

mod access;
mod bad_input;
mod compute_templates;
mod docs;
mod fake_python;
mod kuberay_clients;
mod life;
mod logs;
mod metrics;
mod pages;
mod readiness;
mod restarts;
mod scaler;
mod server;
mod starts;
mod tls;
mod updates;
mod walk;
mod watch;
