//! The webhook's authority and certificate, which replicas share in a Secret.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum_server::tls_rustls::RustlsConfig;
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

/// The authority that signed the certificate, its validity, and its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issue {
    authority: String,
    not_before: i64,
    not_after: i64,
    /// Empty if an older version has issued the certificate.
    #[serde(default)]
    names: Vec<String>,
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
    /// Reads the content of a Secret.
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

    /// Reads the Secret; an empty value if it does not exist. Damaged content counts as empty, so that it is generated
    /// again.
    pub(crate) async fn load(client: &Client, namespace: &str) -> Result<Self> {
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(SECRET).await.context("the webhook's Secret cannot be read")?;
        Ok(found.as_ref().map(Self::read).unwrap_or_default().without_damaged().await)
    }

    /// Drops certificates that are unreadable or do not fit their keys.
    async fn without_damaged(mut self) -> Self {
        if !is_pair(&self.certificate, &self.key).await {
            self.issue = None;
        }
        let mut authorities = Vec::new();
        for authority in self.authorities {
            if is_pair(&authority.certificate, &authority.key).await {
                authorities.push(authority);
            }
        }
        Self { authorities, ..self }
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

    /// The inputs of the next decision. `called_by` are the names by which the API server calls the webhook.
    pub(crate) fn observed(&self, published: &str, called_by: Vec<String>) -> ObservedCertificates {
        let authority = |a: &Authority| (a.id.clone(), validity(a.not_before, a.not_after));
        let issue = |issue: &Issue| (issue.authority.clone(), validity(issue.not_before, issue.not_after));
        let is_published = |authority: &&Authority| published.contains(authority.certificate.trim());
        ObservedCertificates {
            authorities: self.authorities.iter().map(authority).collect(),
            certificate: self.issue.as_ref().map(issue),
            names: self.issue.as_ref().map(|issue| issue.names.clone()).unwrap_or_default(),
            published: self.authorities.iter().filter(is_published).map(|a| a.id.clone()).collect(),
            called_by,
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
        let (mut params, not_before, not_after) = params(names.clone(), lives.certificate, now)?;
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        self.certificate = params.signed_by(&key, &issuer)?.pem();
        self.key = key.serialize_pem();
        self.issue = Some(Issue { authority: authority.to_owned(), not_before, not_after, names });
        Ok(())
    }

    /// Removes authorities.
    pub(crate) fn drop_authorities(&mut self, ids: &[String]) {
        self.authorities.retain(|authority| !ids.contains(&authority.id));
    }
}

/// Returns true if a server could use a certificate with its key.
async fn is_pair(certificate: &str, key: &str) -> bool {
    RustlsConfig::from_pem(certificate.into(), key.into()).await.is_ok()
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::decide::certificate::{CertificateStep, next_step};

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn names() -> Vec<String> {
        vec!["10.0.0.7".to_owned()]
    }

    /// A Secret as the leader writes it.
    fn issued() -> Certificates {
        let mut certificates = Certificates::default();
        certificates.add_authority(CertificateLives::default(), NOW).unwrap();
        let authority = certificates.authorities[0].id.clone();
        certificates.issue(&authority, names(), CertificateLives::default(), NOW).unwrap();
        certificates
    }

    /// The next step for a Secret with this content, of which everything is published.
    async fn step(certificates: Certificates) -> CertificateStep {
        let certificates = certificates.without_damaged().await;
        let published: String = certificates.authorities.iter().map(|one| one.certificate.as_str()).collect();
        next_step(&certificates.observed(&published, names()), NOW)
    }

    #[rstest]
    #[case::whole(|_: &mut Certificates| {}, "Keep")]
    #[case::no_certificate(|secret: &mut Certificates| secret.certificate.clear(), "IssueCertificate")]
    #[case::unreadable(|secret: &mut Certificates| secret.certificate = "garbage".into(), "IssueCertificate")]
    #[case::unreadable_body(|secret: &mut Certificates| secret.certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(), "IssueCertificate")]
    #[case::unreadable_key(|secret: &mut Certificates| secret.key = "garbage".into(), "IssueCertificate")]
    #[case::key_of_another(|secret: &mut Certificates| secret.key = issued().key, "IssueCertificate")]
    #[case::authority(|secret: &mut Certificates| secret.authorities[0].certificate = "garbage".into(), "CreateAuthority")]
    #[case::key_of_authority(|secret: &mut Certificates| secret.authorities[0].key = "garbage".into(), "CreateAuthority")]
    #[tokio::test]
    async fn damaged_content_is_generated_again(
        #[case] damage: fn(&mut Certificates),
        #[case] expected: &str,
    ) {
        let mut secret = issued();
        damage(&mut secret);
        let step = format!("{:?}", step(secret).await);
        assert!(step.starts_with(expected), "{step}");
    }

    #[tokio::test]
    async fn a_certificate_of_an_older_version_is_issued_again() {
        let mut secret = issued();
        let mut issue = serde_json::to_value(&secret.issue).unwrap();
        issue.as_object_mut().unwrap().remove("names");
        secret.issue = serde_json::from_value(issue).unwrap();
        assert!(matches!(step(secret).await, CertificateStep::IssueCertificate(_)));
    }
}
