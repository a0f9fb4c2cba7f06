//! Following clusters: the current set, then every change, by the order of commits.

use std::collections::HashSet;
use std::time::Duration;

use futures::stream::{self, Stream};
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::principal::Principal;
use muster_proto::v1alpha2::{WatchClustersRequest, WatchClustersResponse};
use muster_store::reads::ClusterQuery;
use muster_store::{Dialect, Store, Touched};
use tokio::sync::broadcast;
use tonic::Status;

use super::pages::{self, ClusterFilters};
use super::{CoreApi, convert};
use crate::error::ApiError;

/// How often a watch that nobody told of anything looks all the same; also how often it says that it lives.
const BOOKMARK: Duration = Duration::from_secs(30);

/// How soon a commit is read again that could not be read when it was told of.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// How often: ten seconds; after that the next commit or bookmark brings it.
const READS: u32 = 50;

/// One watch: what it has told, and up to which commit.
struct Watch {
    store: Store,
    commits: broadcast::Receiver<Touched>,
    filter: ClusterQuery,
    known: HashSet<ClusterId>,
    change: i64,
    waiting: Vec<WatchClustersResponse>,
    begun: bool,
    /// How often a commit is still looked for that was told of and has not been read.
    owed: u32,
    /// It goes on from a token: what was told before that is not known here.
    resumed: bool,
}

impl CoreApi {
    /// Begins with the current set, or with what changed since a token.
    pub(super) fn watch(
        &self,
        principal: &Principal,
        request: &WatchClustersRequest,
    ) -> Result<impl Stream<Item = Result<WatchClustersResponse, Status>> + use<>, ApiError> {
        let filters = ClusterFilters {
            state: &request.state,
            framework: &request.framework,
            user: &request.user,
            label: &request.label,
            name_prefix: &request.name_prefix,
            deleted: "",
            sort_by: "",
        };
        let namespace = Some(request.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let filter = ClusterQuery { namespace, ..pages::cluster_query(principal, &filters)? };
        let resumed = match request.resume_token.as_str() {
            "" => None,
            token => Some(token.parse::<i64>().ok().filter(|change| *change >= 0).ok_or_else(|| {
                ApiError::invalid(format!(
                    "resume_token '{token}' is none that was given: begin again without one"
                ))
            })?),
        };
        let store = self.engine.store().clone();
        let commits = store.subscribe();
        let watch = Watch {
            store,
            commits,
            filter,
            known: HashSet::new(),
            change: resumed.unwrap_or(0),
            waiting: Vec::new(),
            begun: resumed.is_some(),
            resumed: resumed.is_some(),
            owed: 0,
        };
        Ok(stream::try_unfold(watch, |mut watch| async move {
            let message = watch.next().await.map_err(|error| Status::from(ApiError::from(error)))?;
            Ok(Some((message, watch)))
        }))
    }
}

impl Watch {
    async fn next(&mut self) -> Result<WatchClustersResponse, muster_store::StoreError> {
        loop {
            if let Some(message) = self.waiting.pop() {
                return Ok(message);
            }
            if !self.begun {
                self.begun = true;
                self.begin().await?;
                continue;
            }
            self.look().await?;
            if !self.waiting.is_empty() {
                self.owed = 0;
                continue;
            }
            // Told of a commit that cannot be read yet: on PostgreSQL an older transaction still runs.
            let patience = if self.owed > 0 { READ_AGAIN } else { BOOKMARK };
            if self.hear(patience).await {
                self.owed = if self.store.dialect() == Dialect::Postgres { READS } else { 0 };
            } else if self.owed > 0 {
                self.owed -= 1;
            } else {
                return Ok(self.bookmark());
            }
        }
    }

    /// The current set, then a bookmark: from there on only changes come.
    async fn begin(&mut self) -> Result<(), muster_store::StoreError> {
        // Read before the set, so that nothing between the two is missed; some of it may come twice.
        self.change = self.store.change_horizon().await?;
        let page = self.store.clusters(&self.filter).await?;
        self.waiting.push(self.bookmark());
        for cluster in page.items.into_iter().rev() {
            self.known.insert(cluster.id);
            let message = self.message("ADDED", cluster);
            self.waiting.push(message);
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), muster_store::StoreError> {
        let (changed, upto) =
            self.store.clusters_changed_since(self.change, self.filter.project.as_deref()).await?;
        self.change = upto;
        for cluster in changed.into_iter().rev() {
            let fits = cluster.deleted_at.is_none() && self.fits(&cluster);
            let elsewhere =
                self.filter.namespace.as_ref().is_some_and(|namespace| *namespace != cluster.namespace);
            if elsewhere {
                continue;
            }
            let kind = match (self.known.contains(&cluster.id) || self.resumed, fits) {
                (false, false) => continue,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            if fits {
                self.known.insert(cluster.id);
            } else {
                self.known.remove(&cluster.id);
            }
            let message = self.message(kind, cluster);
            self.waiting.push(message);
        }
        Ok(())
    }

    fn fits(&self, cluster: &Cluster) -> bool {
        let filter = &self.filter;
        let labelled = |(key, value): &(String, String)| cluster.labels.get(key) == Some(value);
        filter.namespace.as_ref().is_none_or(|namespace| *namespace == cluster.namespace)
            && (filter.statuses.is_empty() || filter.statuses.contains(&cluster.status))
            && filter.framework.is_none_or(|framework| cluster.framework == Some(framework))
            && filter.user.as_ref().is_none_or(|user| *user == cluster.user)
            && filter.name_prefix.as_ref().is_none_or(|prefix| cluster.name.starts_with(prefix))
            && filter.labels.iter().all(labelled)
    }

    /// Waits for a commit that may matter; false if none came for a while.
    async fn hear(&mut self, patience: Duration) -> bool {
        let told = async {
            loop {
                match self.commits.recv().await {
                    Ok(Touched::Cluster(_)) | Err(broadcast::error::RecvError::Lagged(_)) => return true,
                    Ok(Touched::Action(_) | Touched::Work) => {}
                    Err(broadcast::error::RecvError::Closed) => return false,
                }
            }
        };
        tokio::time::timeout(patience, told).await.unwrap_or(false)
    }

    fn bookmark(&self) -> WatchClustersResponse {
        WatchClustersResponse {
            r#type: "BOOKMARK".to_owned(),
            cluster: None,
            resume_token: self.change.to_string(),
        }
    }

    fn message(&self, kind: &str, cluster: Cluster) -> WatchClustersResponse {
        WatchClustersResponse {
            r#type: kind.to_owned(),
            cluster: Some(convert::cluster(cluster)),
            resume_token: self.change.to_string(),
        }
    }
}
