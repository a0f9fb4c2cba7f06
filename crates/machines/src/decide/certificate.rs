//! The renewal of the webhook's certificates, and the authorities in the API server's bundle.
//!
//! Authorities and certificate are stored in a Secret that all replicas watch. A new authority is published before a
//! certificate of it is served, and the old authority stays in the bundle until it expires: the API server never
//! rejects the certificate of a replica meanwhile.

use muster_core::time::{TimeSpan, Timestamp};

/// The time from the issue of a certificate to the end of its validity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The time of the issue.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
}

/// The tolerated difference between the clocks of replicas and API servers: certificates are valid this much earlier
/// than their issue.
pub(crate) const SKEW: TimeSpan = TimeSpan::from_secs(60);

impl Validity {
    /// Returns true if two thirds of the validity have passed, so that the certificate should be renewed.
    pub fn is_due(self, now: Timestamp) -> bool {
        let life = self.not_after.since(self.not_before);
        now < self.not_before.before(SKEW)
            || now.since(self.not_before) >= TimeSpan::from_micros(life.micros() / 3 * 2)
    }

    /// Returns true if the validity has ended.
    pub fn is_over(self, now: Timestamp) -> bool {
        now >= self.not_after
    }
}

/// The content of the Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedCertificates {
    /// The authorities by a digest, the newest last.
    pub authorities: Vec<(String, Validity)>,
    /// The certificate, and the digest of its authority.
    pub certificate: Option<(String, Validity)>,
    /// The names in the certificate.
    pub names: Vec<String>,
    /// The digests of the authorities in the registration's bundle.
    pub published: Vec<String>,
    /// The names by which the API server calls the webhook.
    pub called_by: Vec<String>,
}

/// The next step. After each step the state is observed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateStep {
    /// Nothing has to change.
    Keep,
    /// Create a new authority, and add it to the Secret.
    CreateAuthority,
    /// Write a bundle of these authorities into the registration.
    PublishBundle(Vec<String>),
    /// Issue a new certificate by the authority with this digest.
    IssueCertificate(String),
    /// Remove these expired authorities from the Secret.
    DropAuthorities(Vec<String>),
}

/// Decides the next step.
pub fn next_step(observed: &ObservedCertificates, now: Timestamp) -> CertificateStep {
    let usable = |(_, validity): &&(String, Validity)| !validity.is_over(now);
    let bundle: Vec<String> =
        observed.authorities.iter().filter(usable).map(|(digest, _)| digest.clone()).collect();
    let Some((newest, validity)) = observed.authorities.last().filter(|newest| usable(newest)) else {
        return CertificateStep::CreateAuthority;
    };
    if validity.is_due(now) {
        return CertificateStep::CreateAuthority;
    }
    if observed.published != bundle {
        return CertificateStep::PublishBundle(bundle);
    }
    let covered = observed.called_by.iter().all(|name| observed.names.contains(name));
    let good = |(authority, certificate): &(String, Validity)| {
        authority == newest && covered && !certificate.is_due(now)
    };
    if !observed.certificate.as_ref().is_some_and(good) {
        return CertificateStep::IssueCertificate(newest.clone());
    }
    let expired: Vec<String> = observed
        .authorities
        .iter()
        .filter(|entry| !usable(entry))
        .map(|(digest, _)| digest.clone())
        .collect();
    if expired.is_empty() { CertificateStep::Keep } else { CertificateStep::DropAuthorities(expired) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::CertificateStep::{CreateAuthority, DropAuthorities, IssueCertificate, Keep, PublishBundle};
    use super::*;

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn observed(
        authorities: &[(&str, i64, i64)],
        certificate: Option<(&str, i64, i64)>,
        published: &[&str],
    ) -> ObservedCertificates {
        let entry = |&(digest, from, to): &(&str, i64, i64)| {
            (digest.to_owned(), Validity { not_before: at(from), not_after: at(to) })
        };
        ObservedCertificates {
            authorities: authorities.iter().map(entry).collect(),
            certificate: certificate.as_ref().map(entry),
            names: vec!["10.0.0.7".to_owned()],
            published: published.iter().map(|digest| (*digest).to_owned()).collect(),
            called_by: vec!["10.0.0.7".to_owned()],
        }
    }

    /// The time is always 100.
    #[rstest]
    #[case::nothing(observed(&[], None, &[]), CreateAuthority)]
    #[case::published_first(observed(&[("a", 90, 390)], None, &[]), PublishBundle(vec!["a".into()]))]
    #[case::then_issued(observed(&[("a", 90, 390)], None, &["a"]), IssueCertificate("a".into()))]
    #[case::all_well(observed(&[("a", 90, 390)], Some(("a", 90, 120)), &["a"]), Keep)]
    #[case::certificate_due(observed(&[("a", 90, 390)], Some(("a", 80, 110)), &["a"]), IssueCertificate("a".into()))]
    #[case::certificate_not_yet_due(observed(&[("a", 90, 390)], Some(("a", 81, 111)), &["a"]), Keep)]
    #[case::authority_due(observed(&[("a", 0, 150)], Some(("a", 99, 129)), &["a"]), CreateAuthority)]
    #[case::both_are_published(observed(&[("a", 0, 150), ("b", 100, 250)], Some(("a", 99, 129)), &["a"]), PublishBundle(vec!["a".into(), "b".into()]))]
    #[case::then_the_new_one_issues(observed(&[("a", 0, 150), ("b", 100, 250)], Some(("a", 99, 129)), &["a", "b"]), IssueCertificate("b".into()))]
    #[case::the_old_one_stays_meanwhile(observed(&[("a", 0, 150), ("b", 100, 250)], Some(("b", 100, 130)), &["a", "b"]), Keep)]
    #[case::an_expired_one_leaves_the_bundle(observed(&[("a", 0, 100), ("b", 90, 240)], Some(("b", 99, 129)), &["a", "b"]), PublishBundle(vec!["b".into()]))]
    #[case::and_the_secret(observed(&[("a", 0, 100), ("b", 90, 240)], Some(("b", 99, 129)), &["b"]), DropAuthorities(vec!["a".into()]))]
    #[case::bundle_emptied_by_others(observed(&[("a", 90, 390)], Some(("a", 90, 120)), &[]), PublishBundle(vec!["a".into()]))]
    #[case::all_expired(observed(&[("a", 0, 100)], Some(("a", 0, 100)), &["a"]), CreateAuthority)]
    #[case::issued_by_a_faster_clock(observed(&[("a", 160, 460)], Some(("a", 160, 190)), &["a"]), Keep)]
    #[case::clock_set_back(observed(&[("a", 200, 500)], Some(("a", 200, 230)), &["a"]), CreateAuthority)]
    fn certificates_are_renewed_in_order(
        #[case] observed: ObservedCertificates,
        #[case] expected: CertificateStep,
    ) {
        assert_eq!(next_step(&observed, at(100)), expected);
    }

    #[rstest]
    #[case::all(&["a.ns.svc", "a.ns.svc.cluster.local"], &["a.ns.svc"], Keep)]
    #[case::another_address(&["10.0.0.7"], &["10.0.0.8"], IssueCertificate("a".into()))]
    #[case::one_is_missing(&["a.ns.svc"], &["a.ns.svc", "a.ns.svc.cluster.local"], IssueCertificate("a".into()))]
    #[case::none_is_known(&[], &["10.0.0.7"], IssueCertificate("a".into()))]
    fn a_certificate_covers_the_names_by_which_the_webhook_is_called(
        #[case] names: &[&str],
        #[case] called_by: &[&str],
        #[case] expected: CertificateStep,
    ) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut observed = observed(&[("a", 90, 390)], Some(("a", 90, 120)), &["a"]);
        (observed.names, observed.called_by) = (owned(names), owned(called_by));
        assert_eq!(next_step(&observed, at(100)), expected);
    }
}
