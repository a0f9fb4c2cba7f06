//! Following clusters: the current set, then every change, by the order of commits.

mod token;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use futures::stream::{self, Stream};
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_proto::v1alpha2::{WatchClustersRequest, WatchClustersResponse};
use muster_store::reads::{Changed, ChangesQuery, ClusterQuery, Position};
use muster_store::{Cursor, Dialect, Touched};
use tokio::sync::broadcast;
use tonic::Status;

use super::find::optional;
use super::pages::{self, ClusterFilters};
use super::{CoreApi, convert};
use crate::access::Access;
use crate::error::ApiError;
use token::Tokens;

/// How often a watch that nobody told of anything looks all the same; also how often it says that it lives.
const BOOKMARK: Duration = Duration::from_secs(30);

/// How soon a commit is read again that could not be read when it was told of.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// How often: ten seconds; after that the next commit or bookmark brings it.
const READS: u32 = 50;

/// Clusters that are read at once: few enough that a slow client does not hold much memory.
const BATCH: u32 = 500;

/// One watch: what it has told, and up to which commit.
struct Watch {
    api: CoreApi,
    commits: broadcast::Receiver<Touched>,
    filter: ClusterQuery,
    tokens: Tokens,
    step: Step,
    /// How far it has read; what waits has not been told yet.
    position: Position,
    waiting: VecDeque<WatchClustersResponse>,
    /// Whether whoever listens has a cluster, as far as this watch has told.
    has: HashMap<ClusterId, bool>,
    /// Clusters that came with this change or before were told of by an earlier watch.
    heard: i64,
    /// How often a commit is still looked for that was told of and has not been read.
    owed: u32,
    /// Where to go on behind the last message that was given out.
    resume_token: String,
}

/// What a watch does next.
enum Step {
    /// Notes how far changes go, and reads the current set from its beginning.
    Begin,
    /// Reads more of the set.
    Set(Cursor),
    /// Reads changes.
    Follow,
    /// Says that the server stops.
    End,
}

impl CoreApi {
    /// Begins with the current set, or with what changed since a token.
    pub(super) async fn watch(
        &self,
        access: &Access,
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
        let namespace = optional(&request.namespace);
        let filter = ClusterQuery { namespace, ..pages::cluster_query(access, &filters)? };
        // Before anything is read, so that no commit falls between.
        let commits = self.service.store().subscribe();
        let tokens = Tokens::of(&filter);
        let resumed = self.resumed(&tokens, &request.resume_token).await?;
        let watch = Watch {
            api: self.clone(),
            commits,
            filter,
            tokens,
            step: if resumed.is_some() { Step::Follow } else { Step::Begin },
            position: resumed.unwrap_or_default(),
            waiting: VecDeque::new(),
            has: HashMap::new(),
            heard: resumed.unwrap_or_default().heard,
            owed: 0,
            resume_token: request.resume_token.clone(),
        };
        Ok(stream::try_unfold(watch, |mut watch| async move {
            let message = watch.tell().await.map_err(Status::from)?;
            Ok(Some((message, watch)))
        }))
    }

    /// Where an earlier watch ended, if the changes since are still known.
    async fn resumed(&self, tokens: &Tokens, given: &str) -> Result<Option<Position>, ApiError> {
        if given.is_empty() {
            return Ok(None);
        }
        let position = tokens.read(self.signer().await?, given).ok_or_else(|| {
            ApiError::invalid(format!(
                "resume_token '{given}' is none that was given for this watch: begin again without one, \
                 or watch with the same filters"
            ))
        })?;
        let reach = self.service.store().reach_of_changes().await?;
        let gone = |why: &str| {
            let sentence = format!("resume_token {why}: begin again without one");
            Err(ApiError::expired(sentence).word("ResumeTokenExpired"))
        };
        if position.change > reach.newest {
            return gone("is newer than the database, which was set back since");
        }
        if position.change < reach.oldest {
            return gone("is older than the history that is kept");
        }
        Ok(Some(position))
    }
}

impl Watch {
    /// The next message; an error, behind a last token, once the server stops.
    async fn tell(&mut self) -> Result<WatchClustersResponse, ApiError> {
        let closing = self.api.service.closing().clone();
        if !closing.is_cancelled() {
            // What is dropped half-way here has changed nothing yet.
            if let Some(message) = closing.run_until_cancelled(self.next()).await {
                let message = message?;
                self.resume_token.clone_from(&message.resume_token);
                return Ok(message);
            }
        }
        let again = match self.step {
            Step::End => "with the last resume_token",
            // Half of the set is nothing to go on from.
            _ if self.resume_token.is_empty() => "from the beginning",
            _ => {
                self.step = Step::End;
                return Ok(bookmark(self.resume_token.clone()));
            }
        };
        let sentence = format!("the server is stopping: watch again {again} once a server answers");
        Err(ApiError::unavailable(sentence).word("ServerStopping"))
    }

    async fn next(&mut self) -> Result<WatchClustersResponse, ApiError> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(message);
            }
            match &self.step {
                Step::Begin => {
                    // Read before the set, so that nothing between the two is missed; some of it may come twice.
                    self.position = Position::at(self.api.service.store().reach_of_changes().await?.newest);
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

    /// A part of the current set; behind the last one a bookmark: from there on only changes come.
    async fn read_set(&mut self, after: Option<Cursor>) -> Result<(), ApiError> {
        let query = ClusterQuery { after, limit: Some(BATCH), ..self.filter.clone() };
        let page = self.api.service.store().clusters(&query).await?;
        let end = match &page.next {
            Some(_) => None,
            None => Some(bookmark(self.tokens.write(self.api.signer().await?, self.position))),
        };
        self.step = page.next.map_or(Step::Follow, Step::Set);
        for cluster in page.items {
            self.has.insert(cluster.id, true);
            // Whoever has half of the set cannot go on from there, but has to begin again.
            self.waiting.push_back(message("ADDED", cluster, String::new()));
        }
        self.waiting.extend(end);
        Ok(())
    }

    /// Reads changes; if there are none, waits for one, and tells after a while that it still does.
    async fn follow(&mut self) -> Result<Option<WatchClustersResponse>, ApiError> {
        let more = self.read_changes().await?;
        if more || !self.waiting.is_empty() {
            self.owed = 0;
            return Ok(None);
        }
        // Told of a commit that cannot be read yet: on PostgreSQL an older transaction still runs.
        let patience = if self.owed > 0 { READ_AGAIN } else { BOOKMARK };
        if self.hear(patience).await {
            let late = self.api.service.store().dialect() == Dialect::Postgres;
            self.owed = if late { READS } else { 0 };
        } else if self.owed > 0 {
            self.owed -= 1;
        } else {
            let token = self.tokens.write(self.api.signer().await?, self.position);
            return Ok(Some(bookmark(token)));
        }
        Ok(None)
    }

    /// Reads a batch of changes; tells whether there are more.
    async fn read_changes(&mut self) -> Result<bool, ApiError> {
        let query = ChangesQuery {
            after: self.position,
            project: self.filter.project.as_deref(),
            namespace: self.filter.namespace.as_deref(),
            limit: BATCH,
        };
        let changes = self.api.service.store().clusters_changed(query).await?;
        let signer = self.api.signer().await?;
        for Changed { cluster, born, position } in changes.clusters {
            let token = self.tokens.write(signer, position);
            let had = self.has.get(&cluster.id).copied().unwrap_or(born <= self.heard);
            let fits = cluster.deleted_at.is_none() && fits(&self.filter, &cluster);
            if cluster.deleted_at.is_some() {
                self.has.remove(&cluster.id);
            } else {
                self.has.insert(cluster.id, fits);
            }
            let kind = match (had, fits) {
                (false, false) => continue,
                (false, true) => "ADDED",
                (true, true) => "MODIFIED",
                (true, false) => "DELETED",
            };
            self.waiting.push_back(message(kind, cluster, token));
        }
        self.position = changes.position;
        Ok(changes.more)
    }

    /// Waits for a commit that may matter; false if none came for a while.
    async fn hear(&mut self, patience: Duration) -> bool {
        let told = async {
            loop {
                match self.commits.recv().await {
                    Ok(Touched::Cluster(_) | Touched::Everything)
                    | Err(broadcast::error::RecvError::Lagged(_)) => return true,
                    Ok(Touched::Action(_) | Touched::Progress(_) | Touched::Work) => {}
                    Err(broadcast::error::RecvError::Closed) => return false,
                }
            }
        };
        let heard = tokio::time::timeout(patience, told).await.unwrap_or(false);
        if heard {
            self.hear_out();
        }
        heard
    }

    /// Forgets what else was told already: one read brings it all.
    fn hear_out(&mut self) {
        use broadcast::error::TryRecvError::{Closed, Empty};
        while !matches!(self.commits.try_recv(), Err(Empty | Closed)) {}
    }
}

/// Whether a cluster is one of those that are watched.
fn fits(filter: &ClusterQuery, cluster: &Cluster) -> bool {
    // Named one by one, so that a filter that is new does not go unnoticed here. The rest is no filter, or one that the
    // reading of changes applies (`project`), or one that no watch has.
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

fn bookmark(resume_token: String) -> WatchClustersResponse {
    WatchClustersResponse { r#type: "BOOKMARK".to_owned(), cluster: None, resume_token }
}

fn message(kind: &str, cluster: Cluster, resume_token: String) -> WatchClustersResponse {
    let cluster = Some(convert::cluster(cluster));
    WatchClustersResponse { r#type: kind.to_owned(), cluster, resume_token }
}
