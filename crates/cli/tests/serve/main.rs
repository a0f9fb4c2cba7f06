//! The real server as its users meet it: plain HTTP, gRPC, and the command line.

mod access;
mod bad_input;
mod life;
mod pages;
mod restarts;
mod server;
mod tls;
mod walk;
mod watch;
