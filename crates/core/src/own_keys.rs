//! The keys of labels and annotations that only Muster writes.

/// The domain of the keys.
pub const OWN_DOMAIN: &str = "muster.dev";

/// The labels of clusters that say which app and which cluster an object belongs to.
pub const APP_LABELS: [&str; 4] = ["ephemeral", "uses-oshinko-cluster", "oshinko-cluster", "oshinko-type"];

/// Returns true if only Muster may write labels and annotations with this key: Muster would take those of others for
/// its own.
pub fn is_own_key(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain == OWN_DOMAIN || domain.strip_suffix(OWN_DOMAIN).is_some_and(|sub| sub.ends_with('.'))
}
