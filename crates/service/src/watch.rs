//! Watching clusters: the current set, then every change, in the order of commits.

mod token;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures::stream::{self, Stream};
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_store::reads::{Changed, ChangesQuery, Position};
use muster_store::{Cursor, Dialect, Touched};
use tokio::sync::broadcast;

use crate::error::{ErrorKind, ServiceError};
use crate::lists::{Authorized, ClusterQuery};
use crate::service::Service;
use token::Tokens;

/// The interval of bookmarks on an idle watch. The changes are read then too, in case a notification was lost.
const BOOKMARK: Duration = Duration::from_secs(30);

/// The interval of reads while a commit that was notified cannot be read yet.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// The number of such reads: ten seconds. After that the next commit or bookmark brings the change.
const READS: u32 = 50;

/// Clusters that are read at once: few enough that a slow client does not hold much memory.
const BATCH: u32 = 500;

/// A change of a watched set of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterChange {
    /// The cluster was created, or fits the filters now.
    Added,
    /// The cluster changed and still fits the filters.
    Modified,
    /// The cluster was deleted, or does not fit the filters any more.
    Deleted,
}

/// A message of a watch.
#[derive(Debug, Clone)]
pub struct WatchMessage {
    /// The cluster that changed; none in a bookmark.
    pub changed: Option<(ClusterChange, Box<Cluster>)>,
    /// The token by which a later watch continues after this message; empty where that is not possible yet.
    pub resume_token: String,
}

impl WatchMessage {
    const fn bookmark(resume_token: String) -> Self {
        Self { changed: None, resume_token }
    }

    fn changed(change: ClusterChange, cluster: Cluster, resume_token: String) -> Self {
        Self { changed: Some((change, Box::new(cluster))), resume_token }
    }
}

/// The state of one watch.
struct Watch {
    service: Service,
    commits: broadcast::Receiver<Touched>,
    filter: ClusterQuery,
    tokens: Tokens,
    step: Step,
    /// The end of what was read; messages that are pending have not been sent yet.
    position: Position,
    pending: VecDeque<WatchMessage>,
    /// Whether the client knows a cluster from this watch.
    known: HashMap<ClusterId, bool>,
    /// An earlier watch has sent the clusters that were created by this change or before.
    known_until: i64,
    /// The number of further reads for a notified commit that was not visible yet.
    reads_left: u32,
    /// Continues after the last message that was sent.
    resume_token: String,
}

/// The next step of a watch.
enum Step {
    /// Notes the newest change, and reads the current set from its beginning.
    Begin,
    /// Reads more of the set.
    Set(Cursor),
    /// Reads changes.
    Follow,
    /// Reports that the server stops.
    End,
}

impl Service {
    /// Watches the clusters that a query selects: from the current set on, or from where a token ended.
    pub async fn watch_clusters(
        &self,
        query: Authorized<ClusterQuery>,
        resume_token: &str,
    ) -> Result<impl Stream<Item = Result<WatchMessage, ServiceError>> + use<>, ServiceError> {
        let filter = query.into_query();
        // Before anything is read, so that no commit falls between.
        let commits = self.store().subscribe();
        let tokens = Tokens::of(&filter);
        let resumed = self.resumed(&tokens, resume_token).await?;
        let watch = Watch {
            service: self.clone(),
            commits,
            filter,
            tokens,
            step: if resumed.is_some() { Step::Follow } else { Step::Begin },
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

    /// The position where an earlier watch ended, if the changes since are still stored.
    async fn resumed(&self, tokens: &Tokens, given: &str) -> Result<Option<Position>, ServiceError> {
        if given.is_empty() {
            return Ok(None);
        }
        let position = tokens.read(self.signer().await?, given).ok_or_else(|| {
            ServiceError::invalid(format!(
                "resume_token '{given}' is none that was given for this watch: begin again without one, \
                 or watch with the same filters"
            ))
        })?;
        let reach = self.store().reach_of_changes().await?;
        let expired = |why: &str| {
            let message = format!("resume_token {why}: begin again without one");
            Err(ServiceError::new(ErrorKind::Expired, message).code("ResumeTokenExpired"))
        };
        if position.change > reach.last {
            return expired("is newer than the database, which was set back since");
        }
        if position.change < reach.oldest {
            return expired("is older than the history that is kept");
        }
        Ok(Some(position))
    }
}

impl Watch {
    /// The next message; once the server stops, a last bookmark and then an error.
    async fn next_message(&mut self) -> Result<WatchMessage, ServiceError> {
        let closing = self.service.closing().clone();
        if !closing.is_cancelled() {
            // A read that is dropped half-way has changed no state of the watch.
            if let Some(message) = closing.run_until_cancelled(self.read_next()).await {
                let message = message?;
                self.resume_token.clone_from(&message.resume_token);
                return Ok(message);
            }
        }
        let again = match self.step {
            Step::End => "with the last resume_token",
            // A watch cannot continue from within the set.
            _ if self.resume_token.is_empty() => "from the beginning",
            _ => {
                self.step = Step::End;
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
                Step::Begin => {
                    // Read before the set, so that no change between the two is missed; some may be sent twice.
                    self.position = Position::at(self.service.store().reach_of_changes().await?.newest);
                    self.read_set(None).await?;
                }
                Step::Set(cursor) => self.read_set(Some(cursor.clone())).await?,
                Step::Follow | Step::End => {
                    if let Some(bookmark) = self.follow().await? {
                        return Ok(bookmark);
                    }
                }
            }
        }
    }

    /// Reads a part of the current set. A bookmark ends the set: after it only changes are sent.
    async fn read_set(&mut self, after: Option<Cursor>) -> Result<(), ServiceError> {
        let query = ClusterQuery { after, limit: Some(BATCH), ..self.filter.clone() };
        let page = self.service.store().clusters(&query).await?;
        let end = match &page.next {
            Some(_) => None,
            None => Some(WatchMessage::bookmark(self.token().await?)),
        };
        self.step = page.next.map_or(Step::Follow, Step::Set);
        for cluster in page.items {
            self.known.insert(cluster.id, true);
            // Without a token: a client that has a part of the set has to begin again.
            self.pending.push_back(WatchMessage::changed(ClusterChange::Added, cluster, String::new()));
        }
        self.pending.extend(end);
        Ok(())
    }

    /// The token of the present position.
    async fn token(&self) -> Result<String, ServiceError> {
        Ok(self.tokens.write(self.service.signer().await?, self.position))
    }

    /// Reads changes. If there are none, waits for a commit, and returns a bookmark if none comes for a while.
    async fn follow(&mut self) -> Result<Option<WatchMessage>, ServiceError> {
        let more = self.read_changes().await?;
        if more || !self.pending.is_empty() {
            self.reads_left = 0;
            return Ok(None);
        }
        // On PostgreSQL a commit that was notified cannot be read while one with a lower number is under way.
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

    /// Reads a batch of changes; returns whether there are more.
    async fn read_changes(&mut self) -> Result<bool, ServiceError> {
        let query = ChangesQuery {
            after: self.position,
            project: self.filter.project.as_deref(),
            namespace: self.filter.namespace.as_deref(),
            limit: BATCH,
        };
        let changes = self.service.store().clusters_changed(query).await?;
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
            self.pending.push_back(WatchMessage::changed(change, cluster, token));
        }
        self.position = changes.position;
        Ok(changes.more)
    }

    /// Waits for a commit that may have changed a cluster; false if none came in time.
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

    /// Discards further notifications: one read finds all of their changes.
    fn discard_notifications(&mut self) {
        use broadcast::error::TryRecvError::{Closed, Empty};
        while !matches!(self.commits.try_recv(), Err(Empty | Closed)) {}
    }
}

/// Whether a cluster is one of those that are watched.
fn fits(filter: &ClusterQuery, cluster: &Cluster) -> bool {
    // Fields are named one by one, so that a new filter does not compile until it is decided here. Those ignored are no
    // filters, or the reading of changes applies them (`project`), or no watch has them.
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
