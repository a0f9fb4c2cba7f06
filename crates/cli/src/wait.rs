//! Waiting for an action, with its progress; a wait survives lost connections and restarts of the server.

mod progress;

use std::str::FromStr as _;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use muster_api::error::ACTION_HEADER;
use muster_core::action::{ActionKind, SUPERSEDED_OUTPUT};
use muster_core::event::Level;
use muster_proto::v1alpha2::{
    Action, Cluster, Event, GetActionRequest, ListActionsRequest, ListEventsRequest, ListNodesRequest, Node,
    WatchClustersRequest, WatchClustersResponse,
};
use muster_proto::wkt;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::{Code, Response, Status, Streaming};

use crate::connect::Client;
use crate::failure::{Exit, Failure, is_retryable};
use crate::output::message;
use progress::Progress;

/// Interval at which the action is polled in case the watch, which normally reports changes, missed one.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Nodes of larger clusters are not listed while waiting; the cluster has their number.
const MAX_NODES: i32 = 200;

/// The actions that create and delete clusters.
const CREATE: &str = ActionKind::ClusterCreate.as_str();
const DELETE: &str = ActionKind::ClusterDelete.as_str();

/// Flags for whether and how long to wait.
#[derive(Debug, Clone, Parser)]
pub(crate) struct WaitFlags {
    /// Return when the server has accepted the change, without waiting for its end
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Wait at most this long, such as 30s, 5m or 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let given = wkt::Duration::from_str(text).map_err(|error| error.to_string())?;
    Duration::try_from(given).map_err(|_| format!("'{text}' is negative: write 30s or 5m"))
}

impl WaitFlags {
    /// Waits without a time limit.
    pub(crate) fn without_limit() -> Self {
        Self { no_wait: false, timeout: None }
    }

    /// Starts the time limit.
    pub(crate) fn deadline(&self) -> Deadline {
        self.timeout.map_or(Deadline::none(), Deadline::after)
    }
}

/// The end of a time limit, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<(Instant, Duration)>,
}

impl Deadline {
    /// Starts a time limit.
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Some((Instant::now() + limit, limit)) }
    }

    /// No time limit.
    pub(crate) const fn none() -> Self {
        Self { at: None }
    }

    /// Waits for the end of the time limit; for ever if there is none.
    pub(crate) async fn wait(self) {
        match self.at {
            Some((at, _)) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for a connection or an answer, at most until the end of the time limit: a server that hangs must not delay a
    /// command for longer than the user allows.
    pub(crate) async fn limit<T>(self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            answer = answer => answer,
            () = self.wait() => {
                let what = format!("the server has not answered within {}", self.limit_text());
                Err(Failure::new(Exit::TimedOut, what).into())
            }
        }
    }

    /// Formats the time limit; empty if there is none.
    pub(crate) fn limit_text(self) -> String {
        self.at.map_or_else(String::new, |(_, limit)| format!("{} s", limit.as_secs_f64()))
    }

    /// Submits a change until the server accepts it. The change needs a request id, since it may be sent several times.
    pub(crate) async fn submit<T>(
        self,
        client: &mut Client,
        call: impl AsyncFn(&Client) -> Result<Response<T>, Status>,
    ) -> Result<(T, String), Failure> {
        let answer = match self.at {
            Some((at, _)) => timeout_at(at, client.retry(call)).await.map_err(|_| {
                let why = client.connection_error().map_or_else(String::new, |why| format!(": {why}"));
                let what =
                    format!("the server has not answered the request within {}{why}", self.limit_text());
                Failure::new(Exit::TimedOut, what)
                    .hint("`muster get` and `muster actions` show if it was accepted")
            })?,
            None => client.retry(call).await,
        }?;
        let action = answer.metadata().get(ACTION_HEADER).and_then(|id| id.to_str().ok()).unwrap_or_default();
        let action = action.to_owned();
        Ok((answer.into_inner(), action))
    }
}

/// An action of a cluster that a command waits for.
#[derive(Debug, Clone)]
pub(crate) struct AwaitedAction {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) cluster_id: String,
    pub(crate) action_id: String,
}

impl AwaitedAction {
    pub(crate) fn new(cluster: &Cluster, action_id: String) -> Self {
        Self {
            namespace: cluster.namespace.clone(),
            name: cluster.name.clone(),
            cluster_id: cluster.id.clone(),
            action_id,
        }
    }

    /// Prints the action's id, for commands that do not wait.
    pub(crate) fn print_accepted(&self) {
        let Self { name, action_id: id, .. } = self;
        message!("{name}: accepted as action {id}; `muster action show {id}` shows its progress");
    }

    /// Formats the cluster as arguments of a command.
    pub(crate) fn as_argument(&self) -> String {
        if self.namespace == "default" {
            self.name.clone()
        } else {
            format!("{} -n {}", self.name, self.namespace)
        }
    }

    /// Waits until the action has succeeded, showing progress; Ctrl-C stops waiting.
    pub(crate) async fn wait_until_reached(
        &self,
        client: &mut Client,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(&self.name);
        let waited = tokio::select! {
            ended = self.wait_until_ended(client, &mut progress) => WaitEnd::Ended(Box::new(ended?)),
            () = deadline.wait() => WaitEnd::TimedOut,
            _ = tokio::signal::ctrl_c() => WaitEnd::Interrupted,
        };
        let action = match waited {
            WaitEnd::Ended(action) => action,
            WaitEnd::TimedOut => return Err(self.timed_out(deadline, &progress)),
            WaitEnd::Interrupted => return Err(self.interrupted(progress.kind())),
        };
        if action.status == "SUCCEEDED" {
            return Ok(());
        }
        let cluster = self.as_argument();
        let remove = self.how_to_remove(&action.action);
        Err(self.failed(&action).hint(format!(
            "see `muster events {cluster}`, `muster logs {cluster}` or `muster action show {}`{remove}",
            action.id
        )))
    }

    /// Waits as well, but shows no progress and leaves Ctrl-C to the caller, who also deletes a cluster whose creation
    /// failed.
    pub(crate) async fn wait_silently(&self, client: &mut Client) -> Result<(), Failure> {
        let mut progress = Progress::hidden(&self.name);
        let action = self.wait_until_ended(client, &mut progress).await?;
        if action.status == "SUCCEEDED" { Ok(()) } else { Err(self.failed(&action)) }
    }

    /// Follows the action to its end, and reconnects as often as necessary.
    async fn wait_until_ended(
        &self,
        client: &mut Client,
        progress: &mut Progress,
    ) -> Result<Action, Failure> {
        loop {
            match Box::pin(self.follow(client, progress)).await {
                Ok(action) => return Ok(action),
                Err(status) if is_retryable(&status) => {
                    client.reconnect(&status, |text| progress.print_line(text)).await?;
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    async fn follow(&self, client: &mut Client, progress: &mut Progress) -> Result<Action, Status> {
        let request = WatchClustersRequest {
            namespace: self.namespace.clone(),
            name_prefix: self.name.clone(),
            ..WatchClustersRequest::default()
        };
        // Watch before the first read, so that no change between the two is missed.
        let mut watch = client.clusters().watch_clusters(request).await?.into_inner();
        let mut latest: Option<(Cluster, String)> = None;
        let (mut id, mut creates) = (self.action_id.clone(), false);
        loop {
            let request = GetActionRequest { id: id.clone() };
            let action = client.actions().get_action(request).await?.into_inner();
            client.mark_answered();
            if action.ended_at.is_some() {
                creates |= action.action == CREATE;
                if creates
                    && is_superseded(&action)
                    && let Some(next) = self.action_after(client, &id).await?
                {
                    id = next;
                    continue;
                }
                return Ok(action);
            }
            progress.set_action(&action);
            // Without a change, the action is polled all the same.
            if let Ok(changed) = timeout(POLL_INTERVAL, self.next_change(&mut watch)).await {
                let cluster = changed?;
                latest = Some((cluster, self.latest_event(client).await?));
            }
            if let Some((cluster, event)) = &latest {
                let nodes = self.nodes(client, cluster).await?;
                progress.show(cluster, &nodes, event);
            }
        }
    }

    /// Returns the next action on the cluster after another one: the change that completes a superseded creation.
    async fn action_after(&self, client: &Client, id: &str) -> Result<Option<String>, Status> {
        let request = ListActionsRequest {
            target: self.cluster_id.clone(),
            sort_by: "created_at".to_owned(),
            ..ListActionsRequest::default()
        };
        let actions = client.actions().list_actions(request).await?.into_inner().actions;
        Ok(actions.into_iter().map(|action| action.id).skip_while(|other| other != id).nth(1))
    }

    /// Lists the nodes, from which progress derives the current step; empty for large clusters.
    async fn nodes(&self, client: &Client, cluster: &Cluster) -> Result<Vec<Node>, Status> {
        if cluster.desired_workers > MAX_NODES {
            return Ok(Vec::new());
        }
        let request = ListNodesRequest {
            id: self.cluster_id.clone(),
            page_size: MAX_NODES,
            ..ListNodesRequest::default()
        };
        match client.clusters().list_nodes(request).await {
            Ok(answer) => Ok(answer.into_inner().nodes),
            Err(status) if status.code() == Code::NotFound => Ok(Vec::new()),
            Err(status) => Err(status),
        }
    }

    /// Waits for the next change of the cluster.
    async fn next_change(&self, watch: &mut Streaming<WatchClustersResponse>) -> Result<Cluster, Status> {
        while let Some(message) = watch.message().await? {
            if let Some(cluster) = message.cluster.filter(|cluster| cluster.id == self.cluster_id) {
                return Ok(cluster);
            }
        }
        // A watch ends only when its server stops.
        Err(Status::unavailable("the server ended the watch"))
    }

    /// Returns the message of the latest event if it is a warning, which may explain the wait.
    async fn latest_event(&self, client: &Client) -> Result<String, Status> {
        let request = ListEventsRequest {
            id: self.cluster_id.clone(),
            sort_by: "-at".to_owned(),
            page_size: 1,
            ..ListEventsRequest::default()
        };
        let events = client.clusters().list_events(request).await?.into_inner().events;
        Ok(events.into_iter().next().filter(is_warning).map(|event| event.message).unwrap_or_default())
    }

    fn failed(&self, action: &Action) -> Failure {
        let how = if action.status == "CANCELLED" { "was cancelled" } else { "failed" };
        let why = if action.status_reason.is_empty() { "unknown reason" } else { &action.status_reason };
        let what = format!("{} of '{}' {how}: {why}", action.action, self.name);
        Failure::new(Exit::Failed, what).hint(format!("see `muster action show {}`", action.id))
    }

    fn timed_out(&self, deadline: Deadline, progress: &Progress) -> Failure {
        let (last, kind) = (progress.last(), progress.kind());
        let how = if last.is_empty() { String::new() } else { format!(" ({last})") };
        let still = match kind {
            CREATE => "is not created yet",
            DELETE => "is not deleted yet",
            _ => "is not changed yet",
        };
        let (name, id, limit) = (&self.name, &self.action_id, deadline.limit_text());
        let what = format!("'{name}' {still} after {limit}{how}; action {id} continues");
        let (cluster, remove) = (self.as_argument(), self.how_to_remove(kind));
        Failure::new(Exit::TimedOut, what)
            .hint(format!("see `muster get {cluster}` or `muster events {cluster}`{remove}"))
    }

    /// Hints at `muster delete` for a cluster whose creation failed; one that existed before may be in use.
    fn how_to_remove(&self, kind: &str) -> String {
        if kind == CREATE {
            format!("; remove it with `muster delete {}`", self.as_argument())
        } else {
            String::new()
        }
    }

    fn interrupted(&self, kind: &str) -> Failure {
        let what = format!("stopped waiting; action {} of '{}' continues", self.action_id, self.name);
        // Cancelling a creation would leave a broken cluster.
        let hint = if kind == CREATE {
            format!("remove it with `muster delete {}`", self.as_argument())
        } else {
            format!("cancel it with `muster action cancel {}`", self.action_id)
        };
        Failure::new(Exit::Interrupted, what).hint(hint)
    }
}

/// The end of a wait.
enum WaitEnd {
    /// The action has ended.
    Ended(Box<Action>),
    /// The time limit passed.
    TimedOut,
    /// Ctrl-C was pressed.
    Interrupted,
}

/// Returns true if an action ended because a later change of its cluster was made.
fn is_superseded(action: &Action) -> bool {
    action.outputs.as_ref().is_some_and(|outputs| outputs.fields.contains_key(SUPERSEDED_OUTPUT))
}

/// Returns true for warnings and errors.
fn is_warning(event: &Event) -> bool {
    event.level.parse::<Level>().is_ok_and(|level| level >= Level::Warn)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("INFO", false)]
    #[case("DEBUG", false)]
    #[case("WARN", true)]
    #[case("ERROR", true)]
    #[case("CRITICAL", true)]
    #[case("later", false)]
    fn only_warnings_explain_a_wait(#[case] level: &str, #[case] is_reason: bool) {
        assert_eq!(is_warning(&Event { level: level.to_owned(), ..Event::default() }), is_reason);
    }

    #[test]
    fn a_caller_that_deletes_what_failed_gets_no_hint_to_delete_it() {
        let subject = AwaitedAction {
            namespace: "default".to_owned(),
            name: "fred".to_owned(),
            cluster_id: String::new(),
            action_id: "7".to_owned(),
        };
        let action = Action { id: "7".to_owned(), action: CREATE.to_owned(), ..Action::default() };
        let failure = subject.failed(&action).to_string();
        assert!(failure.ends_with("hint: see `muster action show 7`"), "{failure}");
    }

    #[rstest]
    #[case::create(CREATE, "'fred' is not created yet after 2 s; action 7 continues", true)]
    #[case::delete(DELETE, "'fred' is not deleted yet after 2 s; action 7 continues", false)]
    #[case::resize("CLUSTER_RESIZE", "'fred' is not changed yet after 2 s; action 7 continues", false)]
    fn a_timed_out_wait_names_what_is_missing(
        #[case] kind: &str,
        #[case] expected: &str,
        #[case] removable: bool,
    ) {
        let subject = AwaitedAction {
            namespace: "default".to_owned(),
            name: "fred".to_owned(),
            cluster_id: String::new(),
            action_id: "7".to_owned(),
        };
        let mut progress = Progress::new("fred");
        progress.set_action(&Action { action: kind.to_owned(), ..Action::default() });
        let flags = WaitFlags { no_wait: false, timeout: Some(Duration::from_secs(2)) };
        let message = format!("{:?}", subject.timed_out(flags.deadline(), &progress));
        assert!(message.contains(expected), "{message}");
        assert_eq!(message.contains("remove it with `muster delete fred`"), removable, "{message}");
    }
}
