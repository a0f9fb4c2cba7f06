//! Watches that have not listed everything yet, or no longer can. What they would report is unknown.

use std::collections::BTreeMap;

use muster_engine::ports::provider::ProviderError;

/// The stale ones among the watches of a kind, by their index.
#[derive(Debug, Default)]
pub(crate) struct StaleWatches(BTreeMap<usize, StaleWatch>);

#[derive(Debug)]
struct StaleWatch {
    /// Where it watches; none is everywhere.
    namespace: Option<String>,
    /// Why it cannot report; none if it has just begun.
    why: Option<String>,
}

impl StaleWatch {
    fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

impl StaleWatches {
    /// All watches, which have just begun.
    pub(crate) fn of(watches: impl IntoIterator<Item = (usize, Option<String>)>) -> Self {
        let begun = |(index, namespace)| (index, StaleWatch { namespace, why: None });
        Self(watches.into_iter().map(begun).collect())
    }

    /// Refuses to report about a namespace that a stale watch covers; others do not depend on that watch.
    pub(crate) fn check(&self, namespace: &str) -> Result<(), ProviderError> {
        match self.0.values().find(|watch| watch.covers(namespace)) {
            None => Ok(()),
            Some(StaleWatch { why: Some(why), .. }) => Err(ProviderError::transient("Unknown", why.clone())),
            Some(_) => Err(ProviderError::not_yet("Kubernetes has not listed its objects yet")),
        }
    }

    /// The namespaces of watches that cannot report, none being all of them, and why. One that has just begun is not
    /// among them.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.0.values().filter_map(|watch| Some((watch.namespace.as_deref(), watch.why.as_deref()?)))
    }

    /// A watch cannot report any more.
    pub(crate) fn add(&mut self, index: usize, namespace: Option<String>, why: String) {
        self.0.insert(index, StaleWatch { namespace, why: Some(why) });
    }

    /// Whether every watch of a namespace is in sync; none is of all namespaces.
    pub(crate) fn is_in_sync(&self, namespace: Option<&str>) -> bool {
        namespace.map_or(self.0.is_empty(), |namespace| self.check(namespace).is_ok())
    }

    /// A watch has listed everything.
    pub(crate) fn remove(&mut self, index: usize) {
        self.0.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_watch_makes_its_own_namespace_unknown() {
        let mut stale = StaleWatches::of([(0, Some("a".to_owned())), (1, Some("b".to_owned()))]);
        assert!(stale.check("a").is_err() && stale.check("b").is_err());
        stale.remove(0);
        stale.remove(1);
        stale.add(0, Some("a".to_owned()), "forbidden".to_owned());
        assert_eq!(stale.check("a").unwrap_err().message, "forbidden");
        assert_eq!(stale.check("b"), Ok(()));
        assert_eq!(stale.reasons().collect::<Vec<_>>(), [(Some("a"), "forbidden")]);
        stale.add(2, None, "gone".to_owned());
        assert!(stale.check("b").is_err(), "one that watches everywhere");
    }
}
