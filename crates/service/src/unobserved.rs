//! Clusters that cannot be observed at present, so that their rows may be stale.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::ids::InstanceId;
use muster_engine::ports::provider::Unobserved;

/// The clusters that this server cannot observe at present, by the instance of their provider.
#[derive(Debug, Default)]
pub struct UnobservedClusters(pub(crate) HashMap<InstanceId, Vec<Unobserved>>);

impl UnobservedClusters {
    /// Adds the reason to the `status_reason` of a cluster that cannot be observed.
    pub fn explain(&self, mut cluster: Cluster) -> Cluster {
        let mut of_instance = self.0.get(&cluster.instance).into_iter().flatten();
        if cluster.deleted_at.is_none()
            && let Some(unobserved) = of_instance.find(|unobserved| unobserved.concerns(&cluster))
        {
            let (reason, last) = (&unobserved.reason, &cluster.status_reason);
            cluster.status_reason = format!("it cannot be observed at present: {reason}; last known: {last}");
        }
        cluster
    }

    /// A warning for each unobserved namespace and flavor, sorted.
    pub fn warnings(&self) -> Vec<String> {
        let warning = |(instance, unobserved): (&InstanceId, &Unobserved)| {
            let namespace = unobserved.namespace.as_deref().unwrap_or("any");
            let flavor = unobserved.flavor.map(|flavor| format!(" of flavor {flavor}")).unwrap_or_default();
            let reason = &unobserved.reason;
            format!("clusters{flavor} in namespace {namespace} of {instance} cannot be observed: {reason}")
        };
        let all = self.0.iter().flat_map(|(id, all)| all.iter().map(move |unobserved| (id, unobserved)));
        let mut warnings: Vec<String> = all.map(warning).collect();
        warnings.sort();
        warnings
    }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;

    use super::*;

    #[test]
    fn only_clusters_of_the_unobserved_namespace_and_flavor_say_so() {
        let cluster = Cluster {
            namespace: "team".to_owned(),
            flavor: Some("kuberay".to_owned()),
            status_reason: "fine".to_owned(),
            ..sample::cluster(1, 0, None)
        };
        let unobserved = Unobserved {
            namespace: Some("team".to_owned()),
            flavor: Some("kuberay"),
            reason: "forbidden".to_owned(),
        };
        let all = UnobservedClusters(HashMap::from([(cluster.instance.clone(), vec![unobserved])]));
        let reason = |cluster: &Cluster| all.explain(cluster.clone()).status_reason;
        assert_eq!(reason(&cluster), "it cannot be observed at present: forbidden; last known: fine");
        assert_eq!(reason(&Cluster { namespace: "other".to_owned(), ..cluster.clone() }), "fine");
        assert_eq!(reason(&Cluster { flavor: Some("domino".to_owned()), ..cluster.clone() }), "fine");
        let instance = &cluster.instance;
        let warning = format!(
            "clusters of flavor kuberay in namespace team of {instance} cannot be observed: forbidden"
        );
        assert_eq!(all.warnings(), [warning]);
    }
}
