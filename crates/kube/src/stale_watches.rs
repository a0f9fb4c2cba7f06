//! Watches that are not in sync: they have not completed their first list, or have failed. The objects that they
//! cover are unknown.

use std::collections::BTreeMap;

use muster_engine::ports::provider::ProviderError;

/// The stale watches of one cache, by their index.
#[derive(Debug, Default)]
pub(crate) struct StaleWatches(BTreeMap<usize, StaleWatch>);

#[derive(Debug)]
struct StaleWatch {
    /// The namespace that the watch covers; all if none.
    namespace: Option<String>,
    /// The error of the watch; none if it has not completed its first list.
    why: Option<String>,
}

impl StaleWatch {
    fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

impl StaleWatches {
    /// Marks all of these watches as stale, since they have just started.
    pub(crate) fn new(watches: impl IntoIterator<Item = (usize, Option<String>)>) -> Self {
        let started = |(index, namespace)| (index, StaleWatch { namespace, why: None });
        Self(watches.into_iter().map(started).collect())
    }

    /// Returns an error if a stale watch covers the namespace.
    pub(crate) fn check(&self, namespace: &str) -> Result<(), ProviderError> {
        match self.0.values().find(|watch| watch.covers(namespace)) {
            None => Ok(()),
            Some(StaleWatch { why: Some(why), .. }) => Err(ProviderError::transient("Unknown", why.clone())),
            Some(_) => Err(ProviderError::not_yet("Kubernetes has not listed its objects yet")),
        }
    }

    /// Returns the namespace (none for all) and error of each watch that failed.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.0.values().filter_map(|watch| Some((watch.namespace.as_deref(), watch.why.as_deref()?)))
    }

    /// Records that a watch has failed.
    pub(crate) fn mark_stale(&mut self, index: usize, namespace: Option<String>, why: String) {
        self.0.insert(index, StaleWatch { namespace, why: Some(why) });
    }

    /// Returns true if every watch that covers the namespace is in sync; without a namespace, every watch.
    pub(crate) fn is_in_sync(&self, namespace: Option<&str>) -> bool {
        namespace.map_or(self.0.is_empty(), |namespace| self.check(namespace).is_ok())
    }

    /// Records that a watch has listed everything.
    pub(crate) fn mark_in_sync(&mut self, index: usize) {
        self.0.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_watch_makes_its_own_namespace_unknown() {
        let mut stale = StaleWatches::new([(0, Some("a".to_owned())), (1, Some("b".to_owned()))]);
        assert!(stale.check("a").is_err() && stale.check("b").is_err());
        stale.mark_in_sync(0);
        stale.mark_in_sync(1);
        stale.mark_stale(0, Some("a".to_owned()), "forbidden".to_owned());
        assert_eq!(stale.check("a").unwrap_err().message, "forbidden");
        assert_eq!(stale.check("b"), Ok(()));
        assert_eq!(stale.reasons().collect::<Vec<_>>(), [(Some("a"), "forbidden")]);
        stale.mark_stale(2, None, "gone".to_owned());
        assert!(stale.check("b").is_err(), "the watch covers all namespaces");
    }
}
