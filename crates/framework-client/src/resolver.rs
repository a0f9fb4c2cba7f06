//! Host name resolution.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves configured names to their configured address and all others by the system's resolver.
pub(crate) struct Resolver {
    configured: HashMap<String, IpAddr>,
}

impl Resolver {
    pub(crate) fn new(configured: HashMap<String, IpAddr>) -> Self {
        Self { configured }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let configured = self.configured.get(name.as_str()).copied();
        Box::pin(async move {
            // Port 0 stands for the port of the URL.
            let addresses: Vec<SocketAddr> = match configured {
                Some(address) => vec![SocketAddr::new(address, 0)],
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
