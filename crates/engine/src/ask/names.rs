//! Where names lead.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// Looks names up where they are given, and elsewhere as everybody does.
#[derive(Clone)]
pub(crate) struct Names {
    given: Arc<HashMap<String, IpAddr>>,
}

impl Names {
    pub(crate) fn new(given: HashMap<String, IpAddr>) -> Self {
        Self { given: Arc::new(given) }
    }
}

impl Service<Name> for Names {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let given = self.given.get(name.as_str()).copied();
        Box::pin(async move {
            let found: Vec<SocketAddr> = match given {
                // The port is the one that is asked for.
                Some(address) => vec![SocketAddr::new(address, 0)],
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            Ok(found.into_iter())
        })
    }
}
