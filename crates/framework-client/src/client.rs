//! The HTTP client for heads of clusters.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_core::limits::Activity;
use muster_frameworks::{FrameworkRequest, HeadAccess, LiveWorker, LocalFramework, RequestMethod};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, header};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::error::FrameworkRequestError;
use crate::resolver::Resolver;

/// The time-out of a whole exchange: a scheduler with a large graph may need seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time-out of a connection attempt, also for requests with a time-out of minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest body that is read, in bytes: thousands of workers fit.
const RESPONSE_LIMIT: usize = 16 << 20;

/// Sends requests to the heads of clusters. Handles are cheap to clone.
#[derive(Debug, Clone)]
pub struct FrameworkClient {
    client: Client,
}

impl FrameworkClient {
    /// Creates a client that resolves these host names to these addresses, and others by the system's resolver.
    pub fn new(host_addresses: HashMap<String, IpAddr>) -> Self {
        let client = Client::builder()
            .dns_resolver(Arc::new(Resolver::new(host_addresses)))
            // Heads are on this machine or in the same network.
            .no_proxy()
            // The bearer token is for the head alone, and no framework redirects these requests.
            .redirect(Policy::none())
            .http1_only()
            // A kept connection may lead to a head that was replaced: its failure would be taken for one of the new
            // head.
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_TIMEOUT)
            .tls_backend_preconfigured(tls_without_authorities())
            .build()
            .expect(
                "no certificate, proxy or address is loaded, so that nothing can be missing or malformed",
            );
        Self { client }
    }

    /// Fetches the workers that a head counts as alive.
    pub async fn fetch_workers(
        &self,
        framework: &dyn LocalFramework,
        head: &HeadAccess,
    ) -> Result<Vec<LiveWorker>, FrameworkRequestError> {
        let body = self.fetch(&framework.workers_request(head)).await?;
        Ok(framework.read_workers(&body)?)
    }

    /// Fetches the load of each worker of a head, by address; idle workers are left out.
    pub async fn fetch_load(
        &self,
        framework: &dyn LocalFramework,
        head: &HeadAccess,
    ) -> Result<HashMap<String, u64>, FrameworkRequestError> {
        let mut sums: HashMap<String, u64> = HashMap::new();
        for request in framework.load_requests(head) {
            for (address, load) in framework.read_load(&self.fetch(&request).await?)? {
                *sums.entry(address).or_default() += load;
            }
        }
        Ok(sums)
    }

    /// Fetches the activity of a cluster, as its head reports it.
    pub async fn fetch_activity(
        &self,
        framework: &dyn LocalFramework,
        head: &HeadAccess,
    ) -> Result<Activity, FrameworkRequestError> {
        let activity = framework.read_activity(&self.fetch(&framework.activity_request(head)).await?);
        let (Activity::IdleSince(_), Some(request)) = (activity, framework.unattended_request(head)) else {
            return Ok(activity);
        };
        Ok(match framework.read_unattended(&self.fetch(&request).await?) {
            Ok(true) => Activity::Busy,
            Ok(false) => activity,
            Err(_) => Activity::Unknown,
        })
    }

    /// Sends a request and reads the body of its response, if the status is a 2xx.
    pub async fn fetch(&self, request: &FrameworkRequest) -> Result<Vec<u8>, FrameworkRequestError> {
        self.fetch_within(request, REQUEST_TIMEOUT).await
    }

    /// Does the same as [`fetch`](Self::fetch) with another time-out.
    pub async fn fetch_within(
        &self,
        request: &FrameworkRequest,
        timeout: Duration,
    ) -> Result<Vec<u8>, FrameworkRequestError> {
        let failed =
            |error: reqwest::Error| FrameworkRequestError::from_reqwest(&request.url, timeout, &error);
        let response = self.builder(request).timeout(timeout).send().await.map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            return Err(FrameworkRequestError::Status { url: request.url.clone(), status });
        }
        let body = read_limited(response).await.map_err(failed)?;
        body.ok_or_else(|| FrameworkRequestError::TooLarge {
            url: request.url.clone(),
            limit: RESPONSE_LIMIT,
        })
    }

    fn builder(&self, request: &FrameworkRequest) -> RequestBuilder {
        let method = match request.method {
            RequestMethod::Get => reqwest::Method::GET,
            RequestMethod::Post => reqwest::Method::POST,
        };
        let mut builder =
            self.client.request(method, &request.url).header(header::CONTENT_TYPE, "application/json");
        if let Some(secret) = &request.bearer {
            builder = builder.bearer_auth(secret.reveal());
        }
        builder
    }
}

/// Reads a body to its end, or gives up when it exceeds the limit.
async fn read_limited(mut response: Response) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > RESPONSE_LIMIT {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Returns a TLS configuration without authorities, since frameworks are reached by plain HTTP. Without it, building a
/// client would load the system's certificates and depend on a crypto provider that the process installed before.
fn tls_without_authorities() -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions of TLS")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

#[cfg(test)]
mod tests;
