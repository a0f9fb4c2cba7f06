//! Finding or starting a server, and calling it with retries.

mod autostart;
mod channel;
mod folder;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use muster_core::backoff::Backoff;
use muster_core::time::TimeSpan;
use muster_proto::v1alpha2::action_service_client::ActionServiceClient;
use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use muster_proto::v1alpha2::app_service_client::AppServiceClient;
use muster_proto::v1alpha2::cluster_service_client::ClusterServiceClient;
use muster_proto::v1alpha2::compute_template_service_client::ComputeTemplateServiceClient;
use muster_proto::v1alpha2::framework_service_client::FrameworkServiceClient;
use muster_proto::v1alpha2::image_template_service_client::ImageTemplateServiceClient;
use muster_proto::v1alpha2::job_service_client::JobServiceClient;
use muster_proto::v1alpha2::machine_service_client::MachineServiceClient;
use muster_proto::v1alpha2::usage_service_client::UsageServiceClient;
use muster_proto::v1alpha2::{InfoResponse, WhoAmIRequest};
use tokio::time::{Instant, sleep};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::commands::DEFAULT_NAMESPACE;
use crate::contexts::Contexts;
use crate::failure::{Exit, Failure, connection_lost, is_retryable};
use crate::output::message;
use crate::serve::{clusters_folder, default_folder};
use crate::version;
use channel::{Credentials, ServerConnection};
use folder::{Folder, FolderState};

/// Time within which a lost server has to answer again before a command gives up.
const RECONNECT_LIMIT: Duration = Duration::from_mins(1);

/// The file in a pod in which Kubernetes provides the token of the pod's service account.
const POD_TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Interval at which a command checks a server that is starting or stopping on this machine.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Back-off of a command whose server does not answer. The first attempts follow quickly, since most restarts are short;
/// many commands must not occupy a server that starts with their handshakes.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(25), longest: TimeSpan::from_secs(1) };

/// Largest response that is accepted: a page of clusters with long texts is far below.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// The heading of the flags below in `--help`. It is given to each of them: a heading of the whole group would also
/// apply to the arguments that a command declares after it.
const SERVER: &str = "Server";

/// Flags that select a server and the caller's token.
#[derive(Debug, Clone, Parser)]
pub(crate) struct ServerFlags {
    /// Address of the server, such as `http://127.0.0.1:8888` [default: the current context (muster context), else the
    /// server of the data folder]
    #[arg(long, env = "MUSTER_SERVER", value_name = "URL", help_heading = SERVER)]
    server: Option<String>,
    /// Token to authenticate with [default: the token in the data folder]
    #[arg(long, env = "MUSTER_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = SERVER)]
    token: Option<String>,
    /// Data folder of a server on this machine
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR", help_heading = SERVER)]
    data_dir: Option<PathBuf>,
}

/// The place in which commands look for the server.
#[derive(Debug)]
enum ServerLocation {
    /// At a given address.
    Address(String),
    /// At the address that it announced in a data folder of this machine.
    Folder(Folder),
}

/// A connection to a server, with what is needed to find it again.
pub(crate) struct Client {
    location: ServerLocation,
    token: Option<String>,
    connection: ServerConnection,
    /// The current outage; `None` while the server answers.
    outage: Option<Outage>,
}

/// A time in which the server does not answer.
struct Outage {
    since: Instant,
    /// The first error.
    why: String,
    attempts: Attempts,
}

/// The number of attempts to reach a server in a row.
#[derive(Debug, Default)]
struct Attempts(u32);

impl Attempts {
    /// Returns the delay before the next attempt.
    fn next_delay(&mut self) -> Duration {
        self.0 = self.0.saturating_add(1);
        BACKOFF.delay(self.0, fastrand::f64()).into()
    }
}

type Service = InterceptedService<Channel, Credentials>;

/// The client stub of the cluster service.
pub(crate) type Clusters = ClusterServiceClient<Service>;

impl ServerFlags {
    /// Selects a server by address; an empty token counts as none.
    pub(crate) fn at_address(address: &str, token: &str) -> Self {
        Self::from_values(Some(address.to_owned()), Some(token.to_owned()), None)
    }

    /// Builds the flags from values that were read elsewhere.
    pub(crate) fn from_values(
        server: Option<String>,
        token: Option<String>,
        data_dir: Option<String>,
    ) -> Self {
        Self { server, token, data_dir: data_dir.map(PathBuf::from) }
    }

    /// Connects to the server; starts one if none was named and none runs on this machine.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let (location, token) = self.location()?;
        let connection = match &location {
            ServerLocation::Address(address) => channel::open(address, token.as_deref()).await?,
            ServerLocation::Folder(folder) => match folder.wait_until_settled(token.as_deref()).await? {
                Some(connection) => connection,
                None => autostart::start(folder, token.as_deref()).await?,
            },
        };
        warn_of_another_version(&connection);
        Ok(Client { location, token, connection, outage: None })
    }

    /// Connects to the server if one runs; waits for one that is starting or stopping.
    pub(crate) async fn find(&self) -> Result<Option<Client>> {
        let (location, token) = self.location()?;
        let connection = match &location {
            ServerLocation::Address(address) => Some(channel::open(address, token.as_deref()).await?),
            ServerLocation::Folder(folder) => folder.wait_until_settled(token.as_deref()).await?,
        };
        Ok(connection.map(|connection| Client { location, token, connection, outage: None }))
    }

    /// Connects to the server if one answers at once.
    pub(crate) async fn find_now(&self) -> Result<Option<Client>> {
        let (location, token) = self.location()?;
        let connection = match &location {
            ServerLocation::Address(address) => Some(channel::open(address, token.as_deref()).await?),
            ServerLocation::Folder(folder) => match folder.probe(token.as_deref()).await? {
                FolderState::Answering(connection) => Some(*connection),
                _ => None,
            },
        };
        Ok(connection.map(|connection| Client { location, token, connection, outage: None }))
    }

    /// Connects on behalf of a command that needs existing objects. If no server has ever used the data folder it fails
    /// instead of starting one, so that a mistyped folder is not created.
    pub(crate) async fn connect_to_existing(&self) -> Result<Client> {
        match self.find_existing().await? {
            Some(client) => Ok(client),
            None => {
                let what = format!("no cluster exists yet: no server has run with {}", self.location_text());
                let hint =
                    "`muster create NAME` creates a cluster; --data-dir or --server selects another server";
                Err(Failure::new(Exit::NotFound, what).hint(hint).into())
            }
        }
    }

    /// Connects as [`Self::connect`] does, but starts no server for a data folder that no server has ever used: then
    /// returns `None`.
    pub(crate) async fn find_existing(&self) -> Result<Option<Client>> {
        if let (ServerLocation::Folder(folder), _) = self.location()?
            && !folder.was_used()
            && autostart::may_start(&folder).is_ok()
        {
            return Ok(None);
        }
        self.connect().await.map(Some)
    }

    /// Returns true if the data folder has local clusters; works without a server.
    pub(crate) fn has_clusters(&self) -> bool {
        let Ok((ServerLocation::Folder(folder), _)) = self.location() else { return false };
        clusters_folder(folder.path()).read_dir().is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Returns true if a server is the one of the data folder, even if it was reached by address.
    pub(crate) fn owns(&self, client: &Client) -> bool {
        let Ok(folder) = self.folder() else { return false };
        let announced = folder.announced().filter(|_| folder.is_held().unwrap_or(false));
        let id = client.info().map(|info| &info.server_id);
        announced.is_some_and(|announced| Some(&announced.server_id) == id)
    }

    /// Uses the service account's token of this pod, unless a token is given.
    pub(crate) fn use_pod_token(&mut self) {
        if self.token().is_none() {
            self.token = std::fs::read_to_string(POD_TOKEN_FILE).ok().map(|token| token.trim().to_owned());
        }
    }

    /// Returns the given token; an empty environment variable counts as not set.
    fn token(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    /// Describes where the server is looked for, for messages.
    pub(crate) fn location_text(&self) -> String {
        match self.location() {
            Ok((ServerLocation::Address(address), _)) => address,
            Ok((ServerLocation::Folder(folder), _)) => format!("the data folder {}", folder.path().display()),
            Err(_) => "no data folder".to_owned(),
        }
    }

    /// Returns where to look for the server, and the token for it. Flags and variables take precedence over the
    /// context.
    fn location(&self) -> Result<(ServerLocation, Option<String>)> {
        // Fails if a provider is installed already, which is then ring too.
        drop(rustls::crypto::ring::default_provider().install_default());
        let token = self.token().map(str::to_owned);
        // An empty environment variable counts as not set.
        if let Some(address) = self.server.as_ref().filter(|address| !address.is_empty()) {
            return Ok((ServerLocation::Address(address.clone()), token));
        }
        if self.data_dir().is_none()
            && let Some(context) = Contexts::read()?.current()
        {
            let own = Some(context.token.clone()).filter(|token| !token.is_empty());
            return Ok((ServerLocation::Address(context.server.clone()), token.or(own)));
        }
        Ok((ServerLocation::Folder(self.folder()?), token))
    }

    fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref().filter(|folder| !folder.as_os_str().is_empty())
    }

    fn folder(&self) -> Result<Folder> {
        let folder = self.data_dir().map(Path::to_owned).or_else(default_folder);
        let folder = folder.ok_or_else(|| {
            Failure::new(Exit::Usage, "no server is configured: set --server, --data-dir or HOME")
        })?;
        Ok(Folder::new(&folder)?)
    }
}

fn warn_of_another_version(connection: &ServerConnection) {
    let Some(info) = connection.info.as_ref().filter(|info| info.version != version::LINE) else { return };
    let (theirs, ours) = (&info.version, version::LINE);
    message!(
        "warning: the server is version {theirs} and this program {ours}: restart the server with this program; its \
                 clusters keep running"
    );
}

impl Client {
    pub(crate) fn clusters(&self) -> Clusters {
        ClusterServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn actions(&self) -> ActionServiceClient<Service> {
        ActionServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn templates(&self) -> ComputeTemplateServiceClient<Service> {
        ComputeTemplateServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn images(&self) -> ImageTemplateServiceClient<Service> {
        ImageTemplateServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn jobs(&self) -> JobServiceClient<Service> {
        JobServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn usage(&self) -> UsageServiceClient<Service> {
        UsageServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn apps(&self) -> AppServiceClient<Service> {
        AppServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn machines(&self) -> MachineServiceClient<Service> {
        MachineServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
        .max_decoding_message_size(MAX_RESPONSE_BYTES)
    }

    pub(crate) fn frameworks(&self) -> FrameworkServiceClient<Service> {
        FrameworkServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Service> {
        AdminServiceClient::with_interceptor(
            self.connection.channel.clone(),
            self.connection.credentials.clone(),
        )
    }

    /// Returns the server's description of itself; `None` if the server rejected the credentials of the command.
    pub(crate) fn info(&self) -> Option<&InfoResponse> {
        self.connection.info.as_ref()
    }

    /// Asks the server for the caller's own namespace.
    pub(crate) async fn own_namespace(&mut self) -> Result<String, Failure> {
        let answer = self.retry(async |client| client.admin().who_am_i(WhoAmIRequest {}).await).await?;
        let namespace = answer.into_inner().namespace;
        Ok(if namespace.is_empty() { DEFAULT_NAMESPACE.to_owned() } else { namespace })
    }

    /// Returns true if the server was found by a data folder: it runs on this machine as this user.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.location, ServerLocation::Folder(_))
    }

    /// Calls the server, and retries until it answers. Only for idempotent calls: reads, and changes with a request id.
    pub(crate) async fn retry<T>(
        &mut self,
        call: impl AsyncFn(&Self) -> Result<Response<T>, Status>,
    ) -> Result<Response<T>, Failure> {
        loop {
            match call(self).await {
                Ok(answer) => {
                    self.mark_answered();
                    return Ok(answer);
                }
                Err(status) if is_retryable(&status) => {
                    self.reconnect(&status, |text| message!("{text}")).await?;
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// Records that the server answers: the next error starts a new time limit.
    pub(crate) fn mark_answered(&mut self) {
        self.outage = None;
    }

    /// Returns the error of the current outage, if there is one.
    pub(crate) fn connection_error(&self) -> Option<&str> {
        self.outage.as_ref().map(|outage| outage.why.as_str())
    }

    /// Waits until the server answers again, perhaps at another address. It is started only if a command had
    /// started it and it was killed; a server that was stopped stays stopped. A server that answers with errors has
    /// the same time limit as one that does not answer.
    pub(crate) async fn reconnect(&mut self, why: &Status, print: impl Fn(&str)) -> Result<(), Failure> {
        let first = self.outage.is_none();
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: Instant::now(),
            why: why.message().to_owned(),
            attempts: Attempts::default(),
        });
        let deadline = outage.since + RECONNECT_LIMIT;
        if first && !connection_lost(why) {
            print(&format!("waiting: {}", why.message()));
        }
        let mut printed = false;
        loop {
            sleep(outage.attempts.next_delay()).await;
            let found = match &self.location {
                ServerLocation::Address(address) => channel::open(address, self.token.as_deref()).await.ok(),
                ServerLocation::Folder(folder) => match folder.probe(self.token.as_deref()).await {
                    Ok(FolderState::Answering(connection)) => Some(*connection),
                    Ok(FolderState::NoServer) if folder.has_died() => {
                        autostart::start(folder, self.token.as_deref()).await.ok()
                    }
                    _ => None,
                },
            };
            if Instant::now() > deadline {
                let seconds = RECONNECT_LIMIT.as_secs();
                let what = format!("the server has not answered for {seconds} s: {}", why.message());
                let hint = "accepted actions continue when a server runs again: `muster actions` lists them";
                return Err(Failure::new(Exit::Failed, what).hint(hint));
            }
            if let Some(connection) = found {
                self.connection = connection;
                return Ok(());
            }
            if !printed {
                print("lost the connection to the server: reconnecting");
                printed = true;
            }
        }
    }

    /// Waits until a server that was asked to stop has stopped.
    pub(crate) async fn wait_until_stopped(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + RECONNECT_LIMIT;
        let mut attempts = Attempts::default();
        loop {
            let gone = match &self.location {
                ServerLocation::Address(address) => {
                    channel::open(address, self.token.as_deref()).await.is_err()
                }
                ServerLocation::Folder(folder) => !folder.is_held()?,
            };
            if gone {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = format!("the server has not stopped within {} s", RECONNECT_LIMIT.as_secs());
                return Err(Failure::new(Exit::TimedOut, what).hint("see its log"));
            }
            sleep(attempts.next_delay()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn only_flags_of_the_server_are_below_its_heading() {
        fn check(command: &clap::Command) {
            let named = |argument: &&clap::Arg| argument.get_help_heading() == Some(SERVER);
            for argument in command.get_arguments().filter(named) {
                let id = argument.get_id().as_str();
                assert!(["server", "token", "data_dir"].contains(&id), "{}: {id}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&crate::Args::command());
    }

    #[test]
    fn attempts_to_reconnect_are_quick_at_first_and_then_rare() {
        let mut attempts = Attempts::default();
        let quick: Duration = (0..4).map(|_| attempts.next_delay()).sum();
        assert!(quick < Duration::from_millis(400), "{quick:?}");
        let all: Duration = quick + (4..150).map(|_| attempts.next_delay()).sum::<Duration>();
        assert!(all > RECONNECT_LIMIT, "150 attempts within {all:?}");
    }
}
