//! The addresses at which a cluster answers.

use std::collections::BTreeMap;

use muster_core::address::host_and_port;

/// Addresses of a running cluster, by purpose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Endpoints(BTreeMap<String, String>);

impl Endpoints {
    /// The purpose of the address that programs connect to.
    pub const ADDRESS: &'static str = "address";
    /// The purpose of the address of the web page.
    pub const DASHBOARD: &'static str = "dashboard";

    pub(crate) fn with(mut self, purpose: &str, address: String) -> Self {
        self.0.insert(purpose.to_owned(), address);
        self
    }

    /// Returns the address for a purpose.
    pub fn get(&self, purpose: &str) -> Option<&str> {
        self.0.get(purpose).map(String::as_str)
    }

    /// Returns the port of the address for a purpose.
    pub(crate) fn port(&self, purpose: &str) -> Option<u16> {
        host_and_port(self.get(purpose)?).map(|(_, port)| port)
    }
}

impl From<BTreeMap<String, String>> for Endpoints {
    fn from(all: BTreeMap<String, String>) -> Self {
        Self(all)
    }
}

impl From<Endpoints> for BTreeMap<String, String> {
    fn from(Endpoints(all): Endpoints) -> Self {
        all
    }
}
