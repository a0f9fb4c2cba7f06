//! Checks settings for invalid and contradicting values.

use std::collections::HashSet;

use anyhow::{Result, bail};
use muster_api::auth::{DOMINO_SCHEME, KUBERNETES_SCHEME};
use muster_core::dns_label::{LONGEST_DNS_LABEL, is_dns_label};
use muster_core::shape::{NamedShape, Shape};
use muster_core::time::TimeSpan;
use muster_store::Store;
use reqwest::Url;

use super::{ServerSettings, parse_domino_url};

/// Returns true for HTTPS URLs: an API server calls webhooks by HTTPS only.
fn is_https(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.has_host())
}

/// Checks shapes: names must differ from amounts and from each other.
fn check_shapes(shapes: &[NamedShape]) -> Result<()> {
    let mut names = HashSet::new();
    for NamedShape { name, shape } in shapes {
        if name.is_empty() || name.contains(['=', ',']) || name.chars().any(char::is_control) {
            bail!("shape name is {name:?}: must not be empty or have '=' or ','");
        }
        if let Some(field) = shape.unknown_field() {
            bail!("shape '{name}' has the unknown key '{field}'");
        }
        if *shape == Shape::default() {
            bail!("shape '{name}' is empty: give it cpu, memory or gpu");
        }
        if let Err(why) = shape.check() {
            bail!("shape '{name}': {why}");
        }
        if !names.insert(name) {
            bail!("two shapes are named '{name}': names must be unique");
        }
    }
    Ok(())
}

impl ServerSettings {
    /// Fails for invalid or contradicting settings, before anything starts.
    pub(super) fn check(&self) -> Result<()> {
        if self.data_dir.as_os_str().is_empty() {
            bail!("no data folder is configured: set --data-dir, XDG_DATA_HOME or HOME");
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            bail!("only one of tls_cert and tls_key is set: set both or none");
        }
        if self.kubeconfig.is_some() && self.in_cluster {
            bail!("kubeconfig and in_cluster exclude each other: leave one of them out");
        }
        if !self.has_kubernetes() && self.auth.iter().any(|scheme| scheme == KUBERNETES_SCHEME) {
            bail!("auth is 'kubernetes', but no Kubernetes is configured: set kubeconfig or in_cluster");
        }
        let has_domino = self.auth.iter().any(|scheme| scheme == DOMINO_SCHEME);
        match &self.domino_url {
            None if has_domino => bail!("auth is 'domino', but no Domino is configured: set domino_url"),
            Some(url) if parse_domino_url(url).is_none() => {
                bail!("domino_url is '{url}': must be a URL that begins with http:// or https://")
            }
            _ => {}
        }
        if !is_dns_label(&self.compute_namespace) {
            bail!(
                "compute_namespace is '{}': must be a namespace, of at most {LONGEST_DNS_LABEL} lower-case letters, digits and '-'",
                self.compute_namespace
            );
        }
        if self.scaler_max_replicas == 0 {
            bail!(
                "scaler_max_replicas is 0: must be at least 1, since otherwise no cluster could have workers"
            );
        }
        if self.kubernetes_project.is_empty() {
            bail!("kubernetes_project is empty: Kubernetes users need a project");
        }
        if self.parallel_actions == 0 {
            bail!("parallel_actions is 0: must be at least 1");
        }
        if let Some(Err(why)) = self.database_url.as_deref().map(Store::check_url) {
            bail!("database_url is invalid: {why}");
        }
        if self.retention_days == 0 {
            bail!(
                "retention_days is 0: must be at least 1, since otherwise events are deleted before they can be read"
            );
        }
        if self.webhook_listen.is_some() && !self.has_kubernetes() {
            bail!(
                "webhook_listen is for machine types on Kubernetes, but no Kubernetes is configured: set kubeconfig or \
                                 in_cluster"
            );
        }
        let is_found = self.webhook_url.is_some() || self.webhook_service.is_some();
        if let Some(address) =
            self.webhook_listen.filter(|address| address.ip().is_unspecified() && !is_found)
        {
            bail!(
                "webhook_listen is {address}, which the API server cannot call: set webhook_url or webhook_service to the \
                 webhook's address"
            );
        }
        if let Some(url) = self.webhook_url.as_deref().filter(|url| !is_https(url)) {
            bail!("webhook_url is '{url}': must be a URL that begins with https://");
        }
        if self.app_lease.0 < TimeSpan::from_millis(100) {
            bail!(
                "app_lease is {}: must be at least 100ms, since otherwise no command could renew it in time",
                self.app_lease.0
            );
        }
        if self.node_start_seconds == 0 {
            bail!("node_start_seconds is 0: must be at least 1");
        }
        check_shapes(&self.shape)?;
        let outside = [self.listen, self.grpc_listen].into_iter().find(|address| !address.ip().is_loopback());
        if let (true, Some(address)) = (self.dev, outside) {
            bail!(
                "--dev disables protection: the server may listen on loopback addresses only, not on {address}"
            );
        }
        Ok(())
    }
}
