//! Settings that contradict each other, or cannot be used.

use std::collections::HashSet;

use anyhow::{Result, bail};
use muster_api::auth::{DOMINO_SCHEME, KUBERNETES_SCHEME};
use muster_core::shape::{NamedShape, Shape};
use muster_core::time::TimeSpan;
use muster_store::Store;
use reqwest::Url;

use super::{Settings, domino};

/// An API server calls webhooks by HTTPS only.
fn is_https(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "https" && url.has_host())
}

/// The names of shapes have to differ from amounts, and from each other.
fn check_shapes(shapes: &[NamedShape]) -> Result<()> {
    let mut names = HashSet::new();
    for NamedShape { name, shape } in shapes {
        if name.is_empty() || name.contains(['=', ',']) || name.chars().any(char::is_control) {
            bail!("a shape is named {name:?}: give it a name without '=' and ','");
        }
        if let Some(field) = shape.unknown_field() {
            bail!("shape '{name}' has '{field}', which shapes do not have");
        }
        if *shape == Shape::default() {
            bail!("shape '{name}' says nothing: give it cpu, memory or gpu");
        }
        if let Err(why) = shape.check() {
            bail!("shape '{name}': {why}");
        }
        if !names.insert(name) {
            bail!("two shapes are named '{name}': give each a name of its own");
        }
    }
    Ok(())
}

impl Settings {
    /// Settings that contradict each other are refused before anything starts.
    pub(super) fn check(&self) -> Result<()> {
        if self.data_dir.as_os_str().is_empty() {
            bail!("where may data be kept? set --data-dir, XDG_DATA_HOME or HOME");
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            bail!("tls_cert and tls_key belong together: only one of them is set");
        }
        if self.kubeconfig.is_some() && self.in_cluster {
            bail!("kubeconfig and in_cluster name two ways to one Kubernetes: leave one of them out");
        }
        if !self.has_kubernetes() && self.auth.iter().any(|scheme| scheme == KUBERNETES_SCHEME) {
            bail!("auth is 'kubernetes', and there is none to ask: set kubeconfig or in_cluster");
        }
        let has_domino = self.auth.iter().any(|scheme| scheme == DOMINO_SCHEME);
        match &self.domino_url {
            None if has_domino => bail!("auth is 'domino', and there is none to ask: set domino_url"),
            Some(url) if domino(url).is_none() => {
                bail!("domino_url is '{url}': a URL that begins with http:// or https:// is expected")
            }
            _ => {}
        }
        if self.scaler_max_replicas == 0 {
            bail!("scaler_max_replicas is 0: no cluster could have workers; at least 1 is needed");
        }
        if self.kubernetes_project.is_empty() {
            bail!("kubernetes_project is empty: users of Kubernetes need a project to act in");
        }
        if self.parallel_actions == 0 {
            bail!("parallel_actions is 0: at least 1 is needed for anything to happen");
        }
        if let Some(Err(why)) = self.database_url.as_deref().map(Store::check_url) {
            bail!("database_url cannot be used: {why}");
        }
        if self.retention_days == 0 {
            bail!(
                "retention_days is 0: history would be gone before anybody has read it; at least 1 is needed"
            );
        }
        if self.webhook_listen.is_some() && !self.has_kubernetes() {
            bail!(
                "webhook_listen is for machines on Kubernetes, and there is none: set kubeconfig or in_cluster"
            );
        }
        let is_found = self.webhook_url.is_some() || self.webhook_service.is_some();
        if let Some(address) =
            self.webhook_listen.filter(|address| address.ip().is_unspecified() && !is_found)
        {
            bail!(
                "webhook_listen is {address}, which is no address to call: set webhook_url or webhook_service to where \
                 the API server finds the webhook"
            );
        }
        if let Some(url) = self.webhook_url.as_deref().filter(|url| !is_https(url)) {
            bail!("webhook_url is '{url}': a URL that begins with https:// is expected");
        }
        if self.app_lease.0 < TimeSpan::from_millis(100) {
            bail!(
                "app_lease is {}: no command could renew its lease in time; at least 100ms is needed",
                self.app_lease.0
            );
        }
        if self.node_start_seconds == 0 {
            bail!("node_start_seconds is 0: no node starts in no time; at least 1 is needed");
        }
        check_shapes(&self.shape)?;
        let outside = [self.listen, self.grpc_listen].into_iter().find(|address| !address.ip().is_loopback());
        if let (true, Some(address)) = (self.dev, outside) {
            bail!(
                "--dev loosens what protects a server: it does not listen on {address}, only on loopback addresses"
            );
        }
        Ok(())
    }
}
