//! Sums the usage of clusters for each user, project or framework.

use std::collections::HashMap;

use muster_core::cluster::Cluster;
use muster_core::time::{TimeSpan, Timestamp};
use muster_core::usage::{ClusterHistory, RequestedAmounts, UsageGrouping, UsageSum, Window};
use muster_store::reads::{UsageQuery, UsedCluster};
use muster_store::{Page, Store, StoreError};

use crate::access::Access;
use crate::error::ServiceError;
use crate::lists::ListQuery;
use crate::service::Service;

/// The length of the window if a request gives no beginning.
const DEFAULT_SPAN: TimeSpan = TimeSpan::from_secs(30 * 86_400);

/// The number of clusters that are read at a time, because the history may not fit into memory.
const BATCH: u32 = 500;

/// The filter and the window of a usage report.
#[derive(Debug, Clone, Default)]
pub struct UsageRequest {
    /// The namespace of the clusters; none stands for all.
    pub namespace: Option<String>,
    /// The beginning; 30 days before the end if absent.
    pub since: Option<Timestamp>,
    /// The end; now if absent.
    pub until: Option<Timestamp>,
}

/// A usage report.
#[derive(Debug, Clone)]
pub struct UsageReport {
    /// The window that was summed.
    pub window: Window,
    /// The time since which the report is complete: clusters that were deleted earlier may be missing.
    pub complete_since: Timestamp,
    /// The sums by name, most node-hours first.
    pub rows: Vec<(String, UsageSum)>,
    /// The sum of all.
    pub total: UsageSum,
}

impl ListQuery for UsageQuery {
    type Item = UsedCluster;

    fn limit_to_project(&mut self, project: Option<&str>) {
        self.project = project.map(str::to_owned);
    }

    async fn read(&self, store: &Store) -> Result<Page<UsedCluster>, StoreError> {
        store.used_clusters(self).await
    }
}

/// The window of a request, which ends now at the latest.
fn window(
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    now: Timestamp,
) -> Result<Window, ServiceError> {
    let until = until.unwrap_or(now).min(now);
    let since = since.unwrap_or_else(|| until.before(DEFAULT_SPAN));
    if since >= until {
        return Err(ServiceError::invalid("since must be before until and before now: give an earlier time"));
    }
    Ok(Window { since, until })
}

/// The key of the report's row for a cluster, and the name that is shown. They differ because two owners may have the
/// same name.
fn row_of(cluster: &Cluster, by: UsageGrouping) -> (String, String) {
    let same = |name: String| (name.clone(), name);
    match by {
        UsageGrouping::User => {
            let owner = &cluster.owner;
            let name = [&owner.name, &owner.id, &cluster.user].into_iter().find(|name| !name.is_empty());
            let name = name.cloned().unwrap_or_default();
            (format!("{}\n{}\n{name}", owner.scheme, owner.id), name)
        }
        UsageGrouping::Project => same(cluster.project.clone()),
        UsageGrouping::Framework => same(
            cluster
                .framework
                .map_or_else(|| cluster.profile_type.to_string(), |framework| framework.to_string()),
        ),
    }
}

fn history(used: &UsedCluster) -> ClusterHistory {
    let UsedCluster { cluster, profile, records } = used;
    ClusterHistory {
        created: cluster.init_at,
        deleted: cluster.deleted_at,
        present: RequestedAmounts::of_cluster(cluster, profile.as_ref()),
        records: records.clone(),
    }
}

impl Service {
    /// Sums what the clusters that the caller may see requested within a window.
    pub async fn usage(
        &self,
        access: &Access,
        request: UsageRequest,
        by: UsageGrouping,
    ) -> Result<UsageReport, ServiceError> {
        let UsageRequest { namespace, since, until } = request;
        let now = self.now();
        let window = window(since, until, now)?;
        let (mut sums, mut total) = (HashMap::new(), UsageSum::default());
        let mut query = UsageQuery { project: None, namespace, window, after: None, limit: BATCH };
        loop {
            let batch = self.list(&access.visible(query.clone())).await?;
            for used in &batch {
                let Some(usage) = UsageSum::of(&history(used), window) else { continue };
                let (key, name) = row_of(&used.cluster, by);
                sums.entry(key).or_insert_with(|| (name, UsageSum::default())).1.add(&usage);
                total.add(&usage);
            }
            query.after = batch.last().map(|used| used.cluster.id);
            if query.after.is_none() {
                break;
            }
        }
        let mut rows: Vec<(String, UsageSum)> = sums.into_values().collect();
        rows.sort_by(|(name, usage), (other_name, other)| {
            other.node_hours().total_cmp(&usage.node_hours()).then_with(|| name.cmp(other_name))
        });
        Ok(UsageReport { window, complete_since: now.before(self.retention()), rows, total })
    }
}

#[cfg(test)]
mod tests {
    use muster_core::cluster::Framework;
    use muster_core::principal::Owner;
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    const DAY: i64 = 86_400_000_000;

    #[rstest]
    #[case::without_bounds(None, None, Some((70, 100)))]
    #[case::from(Some(90), None, Some((90, 100)))]
    #[case::until(None, Some(40), Some((10, 40)))]
    #[case::no_future(Some(90), Some(200), Some((90, 100)))]
    #[case::nothing(Some(40), Some(40), None)]
    #[case::from_the_future(Some(101), Some(102), None)]
    fn a_window_ends_now_at_the_latest(
        #[case] since: Option<i64>,
        #[case] until: Option<i64>,
        #[case] expected: Option<(i64, i64)>,
    ) {
        let at = |day: i64| Timestamp::from_micros(day * DAY);
        let window = window(since.map(at), until.map(at), at(100)).ok();
        let expected = expected.map(|(since, until)| Window { since: at(since), until: at(until) });
        assert_eq!(window, expected);
    }

    #[rstest]
    #[case(UsageGrouping::User, "Ann")]
    #[case(UsageGrouping::Project, "demo")]
    #[case(UsageGrouping::Framework, "simulated.node-1.0")]
    fn a_cluster_counts_for_its_owner_project_or_framework(
        #[case] by: UsageGrouping,
        #[case] expected: &str,
    ) {
        assert_eq!(row_of(&sample::cluster(1, 0, None), by).1, expected);
    }

    #[test]
    fn owners_of_the_same_name_have_rows_of_their_own() {
        let owner =
            |scheme: &str| Owner { scheme: scheme.to_owned(), id: "1".to_owned(), name: "Ann".to_owned() };
        let row = |owner| row_of(&Cluster { owner, ..sample::cluster(1, 0, None) }, UsageGrouping::User);
        let (one, other) = (row(owner("local")), row(owner("domino")));
        assert_ne!(one.0, other.0);
        assert_eq!(one.1, other.1);
        let of_ray = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 0, None) };
        assert_eq!(row_of(&of_ray, UsageGrouping::Framework).1, "ray");
    }
}
