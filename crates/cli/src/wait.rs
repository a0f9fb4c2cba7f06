//! Waiting for an action: what is being waited for is shown, and the wait outlives the connection.

mod progress;

use std::str::FromStr as _;
use std::time::Duration;

use clap::Parser;
use muster_api::error::ACTION_HEADER;
use muster_core::action::ActionKind;
use muster_core::event::Level;
use muster_proto::v1alpha2::{
    Action, Cluster, Event, GetActionRequest, ListEventsRequest, WatchClustersRequest, WatchClustersResponse,
};
use muster_proto::wkt;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::{Response, Status, Streaming};

use crate::connect::Client;
use crate::failure::{Exit, Failure, is_passing};
use crate::output::say;
use progress::Progress;

/// How often an action is looked at of which nothing was heard: a safety net, changes are told.
const SAFETY_NET: Duration = Duration::from_secs(2);

/// The actions by which clusters come and go.
const CREATE: &str = ActionKind::ClusterCreate.as_str();
const DELETE: &str = ActionKind::ClusterDelete.as_str();

/// Whether to wait, and how long.
#[derive(Debug, Clone, Parser)]
pub(crate) struct WaitFlags {
    /// Do not wait until it is done, only until it is accepted
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait at most, such as 30s, 5m or 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let given = wkt::Duration::from_str(text).map_err(|error| error.to_string())?;
    Duration::try_from(given).map_err(|_| format!("'{text}' is less than nothing: write it as 30s or 5m"))
}

impl WaitFlags {
    /// To wait, however long it takes.
    pub(crate) fn patient() -> Self {
        Self { no_wait: false, timeout: None }
    }

    /// The moment at which patience ends.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline { at: self.timeout.map(|patience| (Instant::now() + patience, patience)) }
    }
}

/// When patience ends, if it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Option<(Instant, Duration)>,
}

impl Deadline {
    async fn passed(self) {
        match self.at {
            Some((at, _)) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn words(self) -> String {
        self.at.map_or_else(String::new, |(_, patience)| format!("{} s", patience.as_secs_f64()))
    }

    /// Asks for a change, which is done once however often it is sent, until it is accepted.
    pub(crate) async fn submit<T>(
        self,
        client: &mut Client,
        call: impl AsyncFn(&Client) -> Result<Response<T>, Status>,
    ) -> Result<(T, String), Failure> {
        let answer = match self.at {
            Some((at, _)) => timeout_at(at, client.ask(call)).await.map_err(|_| {
                let why = client.trouble().map_or_else(String::new, |why| format!(": {why}"));
                let what =
                    format!("the server has not said within {} whether it does this{why}", self.words());
                Failure::new(Exit::TimedOut, what).hint("`muster get` and `muster actions` show if it does")
            })?,
            None => client.ask(call).await,
        }?;
        let action = answer.metadata().get(ACTION_HEADER).and_then(|id| id.to_str().ok()).unwrap_or_default();
        let action = action.to_owned();
        Ok((answer.into_inner(), action))
    }
}

/// What is waited for.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) cluster_id: String,
    pub(crate) action_id: String,
}

impl Subject {
    pub(crate) fn new(cluster: &Cluster, action_id: String) -> Self {
        Self {
            namespace: cluster.namespace.clone(),
            name: cluster.name.clone(),
            cluster_id: cluster.id.clone(),
            action_id,
        }
    }

    /// Says that it was accepted, to whoever does not wait.
    pub(crate) fn tell_accepted(&self) {
        let Self { name, action_id: id, .. } = self;
        say!("{name}: accepted as action {id}; `muster action show {id}` says how far it is");
    }

    /// How the cluster is named in a command.
    pub(crate) fn typed(&self) -> String {
        if self.namespace == "default" {
            self.name.clone()
        } else {
            format!("{} -n {}", self.name, self.namespace)
        }
    }

    /// Waits until the action has done what it was asked for.
    pub(crate) async fn reached(&self, client: &mut Client, deadline: Deadline) -> Result<(), Failure> {
        let mut progress = Progress::new(&self.name);
        let ended = tokio::select! {
            ended = self.ended(client, &mut progress) => Some(ended?),
            () = deadline.passed() => None,
            _ = tokio::signal::ctrl_c() => return Err(self.interrupted()),
        };
        let Some(action) = ended else { return Err(self.timed_out(deadline, &progress)) };
        if action.status == "SUCCEEDED" { Ok(()) } else { Err(self.failed(&action)) }
    }

    /// The same without showing how far it is, and without an end by Ctrl-C: its caller has its own.
    pub(crate) async fn reached_quietly(&self, client: &mut Client) -> Result<(), Failure> {
        let mut progress = Progress::hidden(&self.name);
        let action = self.ended(client, &mut progress).await?;
        if action.status == "SUCCEEDED" { Ok(()) } else { Err(self.failed(&action)) }
    }

    /// Follows the action to its end, through as many connections as it takes.
    async fn ended(&self, client: &mut Client, progress: &mut Progress) -> Result<Action, Failure> {
        loop {
            match self.follow(client, progress).await {
                Ok(action) => return Ok(action),
                Err(status) if is_passing(&status) => {
                    client.come_back(&status, |text| progress.note(text)).await?;
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
        // Before the first look, so that nothing between the two is missed.
        let mut watch = client.clusters().watch_clusters(request).await?.into_inner();
        loop {
            let request = GetActionRequest { id: self.action_id.clone() };
            let action = client.actions().get_action(request).await?.into_inner();
            client.heard();
            if action.ended_at.is_some() {
                return Ok(action);
            }
            progress.of(&action);
            // Nothing heard is no news: it is looked at all the same.
            if let Ok(heard) = timeout(SAFETY_NET, self.heard(&mut watch)).await {
                let cluster = heard?;
                let event = self.latest_event(client).await?;
                progress.show(&cluster, &event);
            }
        }
    }

    /// The next news of our cluster.
    async fn heard(&self, watch: &mut Streaming<WatchClustersResponse>) -> Result<Cluster, Status> {
        while let Some(message) = watch.message().await? {
            if let Some(cluster) = message.cluster.filter(|cluster| cluster.id == self.cluster_id) {
                return Ok(cluster);
            }
        }
        // The end of a watch is the end of its server.
        Err(Status::unavailable("the server ended the watch"))
    }

    /// The latest event, if it warns: only then it is a reason for waiting.
    async fn latest_event(&self, client: &Client) -> Result<String, Status> {
        let request = ListEventsRequest {
            id: self.cluster_id.clone(),
            sort_by: "-at".to_owned(),
            page_size: 1,
            ..ListEventsRequest::default()
        };
        let events = client.clusters().list_events(request).await?.into_inner().events;
        Ok(events.into_iter().next().filter(warns).map(|event| event.message).unwrap_or_default())
    }

    fn failed(&self, action: &Action) -> Failure {
        let how = if action.status == "CANCELLED" { "was cancelled" } else { "failed" };
        let why = if action.status_reason.is_empty() { "no reason is known" } else { &action.status_reason };
        let what = format!("{} of '{}' {how}: {why}", action.action, self.name);
        let (cluster, id) = (self.typed(), &action.id);
        let remove = self.how_to_remove(&action.action);
        Failure::new(Exit::Failed, what)
            .hint(format!("look with `muster events {cluster}` or `muster action show {id}`{remove}"))
    }

    fn timed_out(&self, deadline: Deadline, progress: &Progress) -> Failure {
        let (last, kind) = (progress.last(), progress.kind());
        let how = if last.is_empty() { String::new() } else { format!(" ({last})") };
        let still = match kind {
            CREATE => "is not there yet",
            DELETE => "is not gone yet",
            _ => "is not as it should be yet",
        };
        let (name, id, patience) = (&self.name, &self.action_id, deadline.words());
        let what = format!("'{name}' {still} after {patience}{how}; action {id} goes on");
        let (cluster, remove) = (self.typed(), self.how_to_remove(kind));
        Failure::new(Exit::TimedOut, what)
            .hint(format!("look with `muster get {cluster}` or `muster events {cluster}`{remove}"))
    }

    /// What may be done with a cluster that did not come to be; one that was there before is somebody's.
    fn how_to_remove(&self, kind: &str) -> String {
        if kind == CREATE {
            format!("; remove it with `muster delete {}`", self.typed())
        } else {
            String::new()
        }
    }

    fn interrupted(&self) -> Failure {
        let what = format!("stopped waiting; action {} of '{}' goes on", self.action_id, self.name);
        let hint = format!("cancel it with `muster action cancel {}`", self.action_id);
        Failure::new(Exit::Interrupted, what).hint(hint)
    }
}

/// Whether an event says that something is wrong.
fn warns(event: &Event) -> bool {
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
    fn only_a_warning_is_a_reason(#[case] level: &str, #[case] is_reason: bool) {
        assert_eq!(warns(&Event { level: level.to_owned(), ..Event::default() }), is_reason);
    }

    #[rstest]
    #[case::create(CREATE, "'fred' is not there yet after 2 s; action 7 goes on", true)]
    #[case::delete(DELETE, "'fred' is not gone yet after 2 s; action 7 goes on", false)]
    #[case::resize("CLUSTER_RESIZE", "'fred' is not as it should be yet after 2 s; action 7 goes on", false)]
    fn whoever_waited_too_long_is_told_for_what(
        #[case] kind: &str,
        #[case] words: &str,
        #[case] removable: bool,
    ) {
        let subject = Subject {
            namespace: "default".to_owned(),
            name: "fred".to_owned(),
            cluster_id: String::new(),
            action_id: "7".to_owned(),
        };
        let mut progress = Progress::new("fred");
        progress.of(&Action { action: kind.to_owned(), ..Action::default() });
        let patience = WaitFlags { no_wait: false, timeout: Some(Duration::from_secs(2)) };
        let said = format!("{:?}", subject.timed_out(patience.deadline(), &progress));
        assert!(said.contains(words), "{said}");
        assert_eq!(said.contains("remove it with `muster delete fred`"), removable, "{said}");
    }
}
