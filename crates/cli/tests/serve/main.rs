//! The real server as its users meet it: plain HTTP, gRPC, and the command line.

mod access;
mod bad_input;
mod compute_templates;
mod docs;
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
