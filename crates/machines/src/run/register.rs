//! The reconciliation by the leader of the webhook's certificate, its registration and the cluster-wide objects.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use super::apply::{apply, failure, is_conflict};
use super::certificate::Certificates;
use super::owners::check_other_muster;
use super::settings::MachinesSettings;
use crate::decide::certificate::{CertificateStep, next_step};
use crate::decide::covers::covers;
use crate::decide::registration::{
    REGISTRATION, WebhookTarget, mutating_webhook, priority_class, reservation_policy, validating_webhook,
};

/// The longest interval between reconciliations: while the registration is missing, guests are created without a gate.
/// Certificates with short lives are reconciled more often.
const PERIOD: Duration = Duration::from_secs(15);

/// The longest time until the API server uses an accepted bundle.
const PUBLISHED_AFTER: Duration = Duration::from_secs(2);

/// The pause after a failed reconciliation.
const RETRY: Duration = Duration::from_secs(2);

pub(crate) struct Registrar {
    pub(crate) client: Client,
    pub(crate) settings: MachinesSettings,
    pub(crate) leads: watch::Receiver<bool>,
}

impl Registrar {
    /// Runs until the election ends; idle while another replica leads.
    pub(crate) async fn run(mut self) {
        let period = PERIOD.min(self.settings.lives.certificate / 10);
        let mut logged = Vec::new();
        while self.leads.wait_for(|leads| *leads).await.is_ok() {
            let failures = self.reconcile().await;
            for message in failures.iter().filter(|message| !logged.contains(*message)) {
                tracing::warn!("{message}");
            }
            let wait = if failures.is_empty() { period } else { RETRY.min(period) };
            logged = failures;
            tokio::select! {
                () = sleep(wait) => {}
                _ = self.leads.changed() => {}
            }
        }
    }

    /// Reconciles everything, and returns the messages of failures. Guests need the class as soon as they are reviewed;
    /// but a class that cannot be created does not prevent the registration.
    async fn reconcile(&self) -> Vec<String> {
        let class = self.create_class().await.err();
        let compared = self.compare().await.err();
        let compared = compared
            .map(|error| format!("the webhook's registration could not be compared: {}", failure(&error)));
        class.map(|error| failure(&error)).into_iter().chain(compared).collect()
    }

    /// Creates the class of guests if it is missing. An existing one is never changed: an administrator may have chosen
    /// another value, which the injector then writes.
    async fn create_class(&self) -> Result<()> {
        let (classes, wanted) = (Api::<PriorityClass>::all(self.client.clone()), priority_class());
        let name = wanted.name_any();
        let present = classes.get_metadata_opt(&name).await;
        if present.with_context(|| format!("PriorityClass {name} cannot be read"))?.is_some() {
            return Ok(());
        }
        match classes.create(&PostParams::default(), &wanted).await {
            Err(error) if !is_conflict(&error) => {
                Err(error).with_context(|| format!("PriorityClass {name} cannot be created"))
            }
            _ => Ok(()),
        }
    }

    /// Reconciles certificate and registration, step by step.
    async fn compare(&self) -> Result<()> {
        let MachinesSettings { namespace, lives, clock, .. } = &self.settings;
        // Detects another Muster that started at the same time, which the check at the start misses.
        check_other_muster(&self.client, namespace, clock.now()).await?;
        loop {
            let mut certificates = Certificates::load(&self.client, namespace).await?;
            let published = self.published().await?;
            let now = clock.now();
            let called_by = names(&self.settings.target);
            match next_step(&certificates.observed(&published, called_by.clone()), now) {
                CertificateStep::Keep => return self.apply_all(&published).await,
                CertificateStep::CreateAuthority => certificates.add_authority(*lives, now)?,
                CertificateStep::PublishBundle(authorities) => {
                    self.apply_all(&certificates.bundle(&authorities)).await?;
                    sleep(PUBLISHED_AFTER.min(lives.certificate / 10)).await;
                    continue;
                }
                CertificateStep::IssueCertificate(authority) => {
                    certificates.issue(&authority, called_by, *lives, now)?;
                }
                CertificateStep::DropAuthorities(authorities) => certificates.drop_authorities(&authorities),
            }
            // Another replica may have written meanwhile: read again.
            certificates.save(&self.client, namespace).await?;
        }
    }

    /// The bundle in the registration; empty if a part is missing or the parts differ.
    async fn published(&self) -> Result<String> {
        let mutating = Api::<MutatingWebhookConfiguration>::all(self.client.clone());
        let validating = Api::<ValidatingWebhookConfiguration>::all(self.client.clone());
        let mutating = mutating.get_opt(REGISTRATION).await?;
        let validating = validating.get_opt(REGISTRATION).await?;
        let mutating = mutating.and_then(|object| object.webhooks).unwrap_or_default();
        let validating = validating.and_then(|object| object.webhooks).unwrap_or_default();
        let bundles = mutating.into_iter().map(|webhook| webhook.client_config);
        let bundles = bundles.chain(validating.into_iter().map(|webhook| webhook.client_config));
        let mut bundles: Vec<Vec<u8>> =
            bundles.map(|client| client.ca_bundle.map(|bundle| bundle.0).unwrap_or_default()).collect();
        bundles.dedup();
        let only = if bundles.len() == 1 { bundles.remove(0) } else { Vec::new() };
        Ok(String::from_utf8_lossy(&only).into_owned())
    }

    async fn apply_all(&self, bundle: &str) -> Result<()> {
        let MachinesSettings { namespace, target, .. } = &self.settings;
        let (policy, binding) = reservation_policy(namespace);
        self.apply(&policy).await?;
        self.apply(&binding).await?;
        self.apply(&mutating_webhook(target, bundle.as_bytes())).await?;
        self.apply(&validating_webhook(target, bundle.as_bytes())).await
    }

    /// Applies an object, unless the existing one covers it.
    async fn apply<K>(&self, wanted: &K) -> Result<()>
    where
        K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
    {
        let (objects, name) = (Api::<K>::all(self.client.clone()), wanted.name_any());
        let present = objects.get_opt(&name).await?;
        if present.is_some_and(|present| covers(&json!(present), &json!(wanted))) {
            return Ok(());
        }
        apply(&objects, &name, wanted)
            .await
            .with_context(|| format!("{} {name} cannot be applied", K::kind(&())))
    }
}

/// The names by which the API server calls the webhook.
fn names(target: &WebhookTarget) -> Vec<String> {
    match target {
        WebhookTarget::Url(url) => {
            let host = url.split("://").last().unwrap_or_default();
            let host = host.split('/').next().unwrap_or_default();
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            vec![host.trim_matches(['[', ']']).to_owned()]
        }
        WebhookTarget::Service { namespace, name, .. } => {
            vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}.svc.cluster.local")]
        }
    }
}

#[cfg(test)]
mod tests;
