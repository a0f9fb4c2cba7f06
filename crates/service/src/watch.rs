//! Watches clusters: sends the current set, and then every change in the order of commits.

mod token;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures::stream::{self, Stream};
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_store::reads::{Changed, ChangesQuery, OpenJob, Position};
use muster_store::{Cursor, Dialect, Touched};
use tokio::sync::broadcast;

use crate::error::{ErrorKind, ServiceError};
use crate::lists::{Authorized, ClusterQuery};
use crate::service::Service;
use token::WatchTokens;

/// The interval of bookmarks on an idle watch. Changes are then read as well, in case a notification was lost.
const BOOKMARK: Duration = Duration::from_secs(30);

/// The interval of reads while a notified commit is not visible yet.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// The number of such reads, which take ten seconds. After that, the next commit or bookmark finds the change.
const READS: u32 = 50;

/// The number of clusters that are read at once, so that a slow client does not hold much memory.
const BATCH: u32 = 500;

/// A change of a watched set of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterChange {
    /// The cluster was created, or matches the filters now.
    Added,
    /// The cluster changed and still matches the filters.
    Modified,
    /// The cluster was deleted, or does not match the filters any more.
    Deleted,
}

/// A message of a watch.
#[derive(Debug, Clone)]
pub struct WatchMessage {
    /// The cluster that changed; none in a bookmark.
    pub changed: Option<(ClusterChange, Box<Cluster>)>,
    /// The jobs on that cluster that have not ended, the oldest first.
    pub jobs: Vec<OpenJob>,
    /// The token by which a later watch continues after this message; empty if that is not possible yet.
    pub resume_token: String,
}

impl WatchMessage {
    const fn bookmark(resume_token: String) -> Self {
        Self { changed: None, jobs: Vec::new(), resume_token }
    }

    fn changed(
        change: ClusterChange,
        cluster: Cluster,
        jobs: Option<Vec<OpenJob>>,
        resume_token: String,
    ) -> Self {
        Self { changed: Some((change, Box::new(cluster))), jobs: jobs.unwrap_or_default(), resume_token }
    }
}

/// The state of one watch.
struct Watch {
    service: Service,
    commits: broadcast::Receiver<Touched>,
    filter: ClusterQuery,
    tokens: WatchTokens,
    step: WatchStep,
    /// The position up to which changes were read. Pending messages of these changes have not been sent yet.
    position: Position,
    pending: VecDeque<WatchMessage>,
    /// True for clusters that this watch has sent and not reported as deleted, false for those that do not match the
    /// filters.
    known: HashMap<ClusterId, bool>,
    /// Clusters that were created by a change up to this number have been sent by an earlier watch.
    known_until: i64,
    /// The number of further reads for a notified commit that was not visible yet.
    reads_left: u32,
    /// The token of the last message that was sent.
    resume_token: String,
}

/// The next step of a watch.
enum WatchStep {
    /// Records the newest change, and reads the current set from its beginning.
    Begin,
    /// Reads the next part of the set.
    Set(Cursor),
    /// Reads changes.
    Follow,
    /// Reports that the server stops.
    End,
}

impl Service {
    /// Watches the clusters that a query selects, from the current set on or from the position of a token.
    pub async fn watch_clusters(
        &self,
        query: Authorized<ClusterQuery>,
        resume_token: &str,
    ) -> Result<impl Stream<Item = Result<WatchMessage, ServiceError>> + use<>, ServiceError> {
        let filter = query.into_query();
        // Subscribed before anything is read, so that no commit is missed.
        let commits = self.store().subscribe();
        let tokens = WatchTokens::of(&filter);
        let resumed = self.resumed(&tokens, resume_token).await?;
        let watch = Watch {
            service: self.clone(),
            commits,
            filter,
            tokens,
            step: if resumed.is_some() { WatchStep::Follow } else { WatchStep::Begin },
            position: resumed.unwrap_or_default(),
            pending: VecDeque::new(),
            known: HashMap::new(),
            known_until: resumed.unwrap_or_default().known_until,
            reads_left: 0,
            resume_token: resume_token.to_owned(),
        };
        Ok(stream::try_unfold(watch, |mut watch| async move {
            let message = watch.next_message().await?;
            Ok(Some((message, watch)))
        }))
    }

    /// The position of an earlier watch; refused if the changes since then are not stored any more.
    async fn resumed(&self, tokens: &WatchTokens, given: &str) -> Result<Option<Position>, ServiceError> {
        if given.is_empty() {
            return Ok(None);
        }
        let position = tokens.read(self.signer().await?, given).ok_or_else(|| {
            ServiceError::invalid(format!(
                "resume_token '{given}' does not belong to this watch: omit it, or use the filters of the first watch"
            ))
        })?;
        let bounds = self.store().change_bounds().await?;
        let expired = |why: &str| {
            let message = format!("resume_token {why}: begin again without one");
            Err(ServiceError::new(ErrorKind::Expired, message).code("ResumeTokenExpired"))
        };
        if position.change > bounds.last {
            return expired("is newer than the database, which was restored from an older copy");
        }
        if position.change < bounds.oldest {
            return expired("is older than the stored history");
        }
        Ok(Some(position))
    }
}

impl Watch {
    /// The next message. When the server stops, this is a last bookmark and then an error.
    async fn next_message(&mut self) -> Result<WatchMessage, ServiceError> {
        let closing = self.service.closing().clone();
        if !closing.is_cancelled() {
            // A cancelled read leaves the state of the watch unchanged, so that it can be repeated.
            if let Some(message) = closing.run_until_cancelled(self.read_next()).await {
                let message = message?;
                self.resume_token.clone_from(&message.resume_token);
                return Ok(message);
            }
        }
        let again = match self.step {
            WatchStep::End => "with the last resume_token",
            // A watch cannot continue in the middle of the set.
            _ if self.resume_token.is_empty() => "from the beginning",
            _ => {
                self.step = WatchStep::End;
                return Ok(WatchMessage::bookmark(self.resume_token.clone()));
            }
        };
        let message = format!("the server is stopping: watch again {again} once a server answers");
        Err(ServiceError::new(ErrorKind::Unavailable, message).code("ServerStopping"))
    }

    async fn read_next(&mut self) -> Result<WatchMessage, ServiceError> {
        loop {
            if let Some(message) = self.pending.pop_front() {
                return Ok(message);
            }
            match &self.step {
                WatchStep::Begin => {
                    // The position is read before the set, so that no change between the two is missed; some changes
                    // may be sent twice.
                    self.position = Position::at(self.service.store().change_bounds().await?.newest);
                    self.read_set(None).await?;
                }
                WatchStep::Set(cursor) => self.read_set(Some(cursor.clone())).await?,
                WatchStep::Follow | WatchStep::End => {
                    if let Some(bookmark) = self.follow().await? {
                        return Ok(bookmark);
                    }
                }
            }
        }
    }

    /// Reads a part of the current set. A bookmark marks the end of the set, after which only changes are sent.
    async fn read_set(&mut self, after: Option<Cursor>) -> Result<(), ServiceError> {
        let query = ClusterQuery { after, limit: Some(BATCH), ..self.filter.clone() };
        let page = self.service.store().clusters(&query).await?;
        let end = match &page.next {
            Some(_) => None,
            None => Some(WatchMessage::bookmark(self.token().await?)),
        };
        let mut jobs = self.open_jobs(page.items.iter()).await?;
        self.step = page.next.map_or(WatchStep::Follow, WatchStep::Set);
        for cluster in page.items {
            self.known.insert(cluster.id, true);
            // The message has no token, because a client with a part of the set has to begin again.
            let jobs = jobs.remove(&cluster.id);
            self.pending.push_back(WatchMessage::changed(ClusterChange::Added, cluster, jobs, String::new()));
        }
        self.pending.extend(end);
        Ok(())
    }

    /// The jobs on these clusters that have not ended.
    async fn open_jobs(
        &self,
        clusters: impl Iterator<Item = &Cluster>,
    ) -> Result<HashMap<ClusterId, Vec<OpenJob>>, ServiceError> {
        let ids: Vec<ClusterId> = clusters.map(|cluster| cluster.id).collect();
        self.service.open_jobs(&ids).await
    }

    /// The token of the present position.
    async fn token(&self) -> Result<String, ServiceError> {
        Ok(self.tokens.write(self.service.signer().await?, self.position))
    }

    /// Reads changes. If there are none, waits for a commit, and returns a bookmark if the wait times out.
    async fn follow(&mut self) -> Result<Option<WatchMessage>, ServiceError> {
        let more = self.read_changes().await?;
        if more || !self.pending.is_empty() {
            self.reads_left = 0;
            return Ok(None);
        }
        // On PostgreSQL, a notified commit cannot be read while a transaction with a lower number is still open.
        let patience = if self.reads_left > 0 { READ_AGAIN } else { BOOKMARK };
        if self.wait_for_commit(patience).await {
            let late = self.service.store().dialect() == Dialect::Postgres;
            self.reads_left = if late { READS } else { 0 };
        } else if self.reads_left > 0 {
            self.reads_left -= 1;
        } else {
            return Ok(Some(WatchMessage::bookmark(self.token().await?)));
        }
        Ok(None)
    }

    /// Reads a batch of changes; returns true if there are more.
    async fn read_changes(&mut self) -> Result<bool, ServiceError> {
        let query = ChangesQuery {
            after: self.position,
            project: self.filter.project.as_deref(),
            namespace: self.filter.namespace.as_deref(),
            limit: BATCH,
        };
        let changes = self.service.store().clusters_changed(query).await?;
        let mut jobs = self.open_jobs(changes.clusters.iter().map(|changed| &changed.cluster)).await?;
        let signer = self.service.signer().await?;
        for Changed { cluster, born, position } in changes.clusters {
            let token = self.tokens.write(signer, position);
            let known = self.known.get(&cluster.id).copied().unwrap_or(born <= self.known_until);
            let fits = cluster.deleted_at.is_none() && fits(&self.filter, &cluster);
            if cluster.deleted_at.is_some() {
                self.known.remove(&cluster.id);
            } else {
                self.known.insert(cluster.id, fits);
            }
            let change = match (known, fits) {
                (false, false) => continue,
                (false, true) => ClusterChange::Added,
                (true, true) => ClusterChange::Modified,
                (true, false) => ClusterChange::Deleted,
            };
            let jobs = jobs.remove(&cluster.id);
            self.pending.push_back(WatchMessage::changed(change, cluster, jobs, token));
        }
        self.position = changes.position;
        Ok(changes.more)
    }

    /// Waits for a commit that may have changed a cluster; returns false if there was none in time.
    async fn wait_for_commit(&mut self, patience: Duration) -> bool {
        let commit = async {
            loop {
                match self.commits.recv().await {
                    Ok(Touched::Cluster(_) | Touched::Everything)
                    | Err(broadcast::error::RecvError::Lagged(_)) => return true,
                    Ok(
                        Touched::Action(_)
                        | Touched::Progress(_)
                        | Touched::Work
                        | Touched::Tasks
                        | Touched::Task(_)
                        | Touched::Apps,
                    ) => {}
                    Err(broadcast::error::RecvError::Closed) => return false,
                }
            }
        };
        let notified = tokio::time::timeout(patience, commit).await.unwrap_or(false);
        if notified {
            self.discard_notifications();
        }
        notified
    }

    /// Discards further notifications, because one read finds all their changes.
    fn discard_notifications(&mut self) {
        use broadcast::error::TryRecvError::{Closed, Empty};
        while !matches!(self.commits.try_recv(), Err(Empty | Closed)) {}
    }
}

/// Returns true if a cluster matches the filters of a watch.
fn fits(filter: &ClusterQuery, cluster: &Cluster) -> bool {
    // Fields are named one by one, so that a new filter does not compile before it is considered here. An ignored
    // field is not a filter, is applied by the read of changes (`project`), or is never set by a watch.
    let ClusterQuery {
        namespace,
        name_prefix,
        statuses,
        framework,
        user,
        labels,
        project: _,
        instance: _,
        names: _,
        owner: _,
        managed_by: _,
        unless_stored_as: _,
        deleted: _,
        sort: _,
        after: _,
        marker: _,
        limit: _,
        with_total: _,
    } = filter;
    let labelled = |(key, value): &(String, String)| cluster.labels.get(key) == Some(value);
    namespace.as_ref().is_none_or(|namespace| *namespace == cluster.namespace)
        && (statuses.is_empty() || statuses.contains(&cluster.status))
        && framework.is_none_or(|framework| cluster.framework == Some(framework))
        && user.as_ref().is_none_or(|user| *user == cluster.user)
        && name_prefix.as_ref().is_none_or(|prefix| cluster.name.starts_with(prefix))
        && labels.iter().all(labelled)
}
