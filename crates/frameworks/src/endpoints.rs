//! The addresses that a cluster answers at.

use std::collections::BTreeMap;

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

    /// The address for a purpose.
    pub fn get(&self, purpose: &str) -> Option<&str> {
        self.0.get(purpose).map(String::as_str)
    }

    /// The port of an address such as `host:port`, `scheme://host:port` or `scheme://host:port/path`.
    pub(crate) fn port(&self, purpose: &str) -> Option<u16> {
        let address = self.get(purpose)?;
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let host = rest.split('/').next()?;
        host.rsplit_once(':')?.1.parse().ok()
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
