//! Clients for tests, whose API server is a test's HTTP server.

use kube::{Client, Config};
use muster_testkit::outside::Outside;

/// A client of this API server.
pub(crate) fn client(api_server: &Outside) -> Client {
    let mut config = Config::new(api_server.url("").parse().expect("an address"));
    // Without TLS no certificate is needed, and those of the machine need not be read.
    config.root_cert = Some(Vec::new());
    // Each test sees the first answer.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}
