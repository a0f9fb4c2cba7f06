//! The webhook's authority and certificate, which replicas share in a Secret.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use muster_core::time::{TimeSpan, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

use super::apply::is_conflict;
use super::settings::CertificateLives;
use crate::decide::certificate::{ObservedCertificates, SKEW, Validity};

/// The name of the Secret.
pub(crate) const SECRET: &str = "muster-webhook-tls";

/// The keys of the Secret. The authorities include their private keys.
const AUTHORITIES: &str = "authorities.json";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const ISSUE: &str = "issue.json";

/// A certificate authority of the webhook, with its private key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Authority {
    pub(crate) id: String,
    pub(crate) certificate: String,
    key: String,
    not_before: i64,
    not_after: i64,
}

/// The authority that signed the certificate, and its validity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issue {
    authority: String,
    not_before: i64,
    not_after: i64,
}

/// The content of the Secret.
#[derive(Debug, Clone, Default)]
pub(crate) struct Certificates {
    version: Option<String>,
    pub(crate) authorities: Vec<Authority>,
    issue: Option<Issue>,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

const fn validity(not_before: i64, not_after: i64) -> Validity {
    Validity { not_before: Timestamp::from_micros(not_before), not_after: Timestamp::from_micros(not_after) }
}

impl Certificates {
    /// Reads the content of a Secret. Damaged content counts as empty, so that it is generated again.
    pub(crate) fn read(secret: &Secret) -> Self {
        let data = secret.data.clone().unwrap_or_default();
        let bytes = |key: &str| data.get(key).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
        let text = |key: &str| String::from_utf8_lossy(bytes(key)).into_owned();
        Self {
            version: secret.metadata.resource_version.clone(),
            authorities: serde_json::from_slice(bytes(AUTHORITIES)).unwrap_or_default(),
            issue: serde_json::from_slice(bytes(ISSUE)).ok(),
            certificate: text(CERTIFICATE),
            key: text(KEY),
        }
    }

    /// Reads the Secret; an empty value if it does not exist.
    pub(crate) async fn load(client: &Client, namespace: &str) -> Result<Self> {
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(SECRET).await.context("the webhook's Secret cannot be read")?;
        Ok(found.as_ref().map(Self::read).unwrap_or_default())
    }

    /// Writes the Secret, and returns false if another replica wrote it meanwhile.
    pub(crate) async fn save(&self, client: &Client, namespace: &str) -> Result<bool> {
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let file = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = BTreeMap::from([
            (AUTHORITIES.to_owned(), ByteString(serde_json::to_vec(&self.authorities)?)),
            (ISSUE.to_owned(), ByteString(serde_json::to_vec(&self.issue)?)),
            (CERTIFICATE.to_owned(), file(&self.certificate)),
            (KEY.to_owned(), file(&self.key)),
        ]);
        let metadata = ObjectMeta {
            name: Some(SECRET.to_owned()),
            resource_version: self.version.clone(),
            ..ObjectMeta::default()
        };
        let secret = Secret { metadata, data: Some(data), ..Secret::default() };
        let written = match &self.version {
            None => secrets.create(&PostParams::default(), &secret).await,
            Some(_) => secrets.replace(SECRET, &PostParams::default(), &secret).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error).context("the webhook's Secret cannot be written"),
        }
    }

    /// The inputs of the next decision.
    pub(crate) fn observed(&self, published: &str) -> ObservedCertificates {
        let authority = |a: &Authority| (a.id.clone(), validity(a.not_before, a.not_after));
        let issue = |issue: &Issue| (issue.authority.clone(), validity(issue.not_before, issue.not_after));
        let is_published = |authority: &&Authority| published.contains(authority.certificate.trim());
        ObservedCertificates {
            authorities: self.authorities.iter().map(authority).collect(),
            certificate: self.issue.as_ref().filter(|_| !self.certificate.is_empty()).map(issue),
            published: self.authorities.iter().filter(is_published).map(|a| a.id.clone()).collect(),
        }
    }

    /// The PEM bundle of these authorities, for the API server.
    pub(crate) fn bundle(&self, ids: &[String]) -> String {
        let chosen = self.authorities.iter().filter(|authority| ids.contains(&authority.id));
        chosen.map(|authority| authority.certificate.as_str()).collect()
    }

    /// Adds a new authority.
    pub(crate) fn add_authority(&mut self, lives: CertificateLives, now: Timestamp) -> Result<()> {
        let key = KeyPair::generate()?;
        let id = format!("{}", now.micros());
        let (mut params, not_before, not_after) = params(Vec::new(), lives.authority, now)?;
        name(&mut params, &id);
        let certificate = params.self_signed(&key)?.pem();
        let key = key.serialize_pem();
        self.authorities.push(Authority { id, certificate, key, not_before, not_after });
        Ok(())
    }

    /// Issues a new certificate for these names.
    pub(crate) fn issue(
        &mut self,
        authority: &str,
        names: Vec<String>,
        lives: CertificateLives,
        now: Timestamp,
    ) -> Result<()> {
        let found = self.authorities.iter().find(|candidate| candidate.id == authority);
        let found = found.with_context(|| format!("the webhook has no authority {authority}"))?;
        let mut issuer = CertificateParams::new(Vec::new())?;
        name(&mut issuer, &found.id);
        let issuer = Issuer::new(issuer, KeyPair::from_pem(&found.key)?);
        let (mut params, not_before, not_after) = params(names, lives.certificate, now)?;
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        self.certificate = params.signed_by(&key, &issuer)?.pem();
        self.key = key.serialize_pem();
        self.issue = Some(Issue { authority: authority.to_owned(), not_before, not_after });
        Ok(())
    }

    /// Removes authorities.
    pub(crate) fn drop_authorities(&mut self, ids: &[String]) {
        self.authorities.retain(|authority| !ids.contains(&authority.id));
    }
}

/// The parameters of a certificate, and the times of its issue and of the end of its validity.
fn params(names: Vec<String>, life: Duration, now: Timestamp) -> Result<(CertificateParams, i64, i64)> {
    let mut params = CertificateParams::new(names)?;
    let not_after = now.after(TimeSpan::from_micros(i64::try_from(life.as_micros())?));
    let since_1970 = |at: Timestamp| Duration::from_micros(u64::try_from(at.micros()).unwrap_or_default());
    params.not_before = date_time_ymd(1970, 1, 1) + since_1970(now.before(SKEW));
    params.not_after = date_time_ymd(1970, 1, 1) + since_1970(not_after);
    Ok((params, now.micros(), not_after.micros()))
}

/// Sets the name and the key usages of an authority in a certificate's parameters.
fn name(params: &mut CertificateParams, id: &str) {
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, format!("Muster machines {id}"));
}
