//! Finding a server and speaking to it.

mod autostart;
mod channel;
mod folder;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::InfoResponse;
use muster_proto::v1alpha2::action_service_client::ActionServiceClient;
use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use muster_proto::v1alpha2::app_service_client::AppServiceClient;
use muster_proto::v1alpha2::cluster_service_client::ClusterServiceClient;
use muster_proto::v1alpha2::compute_template_service_client::ComputeTemplateServiceClient;
use muster_proto::v1alpha2::framework_service_client::FrameworkServiceClient;
use muster_proto::v1alpha2::image_template_service_client::ImageTemplateServiceClient;
use tokio::time::{Instant, sleep};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::failure::{Exit, Failure, connection_lost, is_passing};
use crate::output::say;
use crate::serve::{clusters_folder, default_folder};
use crate::version;
use channel::{Credentials, Way};
use folder::{Folder, Found};

/// How long a server that went away in the middle may take to come back.
const COMING_BACK: Duration = Duration::from_mins(1);

/// Where Kubernetes puts the token of a pod's account.
const POD_TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// How often a server is looked for that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// The largest answer that is taken: a page of clusters with long texts is far below.
const LARGEST_ANSWER: usize = 64 << 20;

/// Which server, and as whom.
#[derive(Debug, Clone, Parser)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerFlags {
    /// The server's address, such as `http://127.0.0.1:8888`; otherwise the one of the data folder
    #[arg(long, env = "MUSTER_SERVER", value_name = "URL")]
    server: Option<String>,
    /// The token to come in with; otherwise the one of the data folder
    #[arg(long, env = "MUSTER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The data folder of a server on this machine
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Where a server is looked for.
#[derive(Debug)]
enum Place {
    /// At an address that was given.
    Address(String),
    /// By what it left in a folder of this machine.
    Folder(Folder),
}

/// A server that answers.
pub(crate) struct Client {
    place: Place,
    token: Option<String>,
    way: Way,
    /// Since when nothing was heard of it, and what was heard last.
    lost: Option<(Instant, String)>,
}

type Service = InterceptedService<Channel, Credentials>;

impl ServerFlags {
    /// The server, which is started if none runs on this machine and none was named.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let place = self.place()?;
        let way = match &place {
            Place::Address(address) => channel::reach(address, self.token()).await?,
            Place::Folder(folder) => match folder.settled(self.token()).await? {
                Some(way) => way,
                None => autostart::start(folder, self.token()).await?,
            },
        };
        warn_of_another_version(&way);
        Ok(Client { place, token: self.token().map(str::to_owned), way, lost: None })
    }

    /// The server, if one runs.
    pub(crate) async fn find(&self) -> Result<Option<Client>> {
        let place = self.place()?;
        let way = match &place {
            Place::Address(address) => Some(channel::reach(address, self.token()).await?),
            Place::Folder(folder) => folder.settled(self.token()).await?,
        };
        Ok(way.map(|way| Client { place, token: self.token().map(str::to_owned), way, lost: None }))
    }

    /// Whether there are clusters on this machine, as far as one sees without a server.
    pub(crate) fn has_clusters(&self) -> bool {
        let Ok(Place::Folder(folder)) = self.place() else { return false };
        clusters_folder(folder.path()).read_dir().is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Whether a server is the one of the data folder, by whichever address it was reached.
    pub(crate) fn owns(&self, client: &Client) -> bool {
        let Ok(folder) = self.folder() else { return false };
        let announced = folder.announced().filter(|_| folder.is_held().unwrap_or(false));
        let id = client.info().map(|info| &info.server_id);
        announced.is_some_and(|announced| Some(&announced.server_id) == id)
    }

    /// In a pod its account is the caller, unless a token is given.
    pub(crate) fn use_pod_token(&mut self) {
        if self.token().is_none() {
            self.token = std::fs::read_to_string(POD_TOKEN_FILE).ok().map(|token| token.trim().to_owned());
        }
    }

    /// A variable that is set to nothing is not set.
    fn token(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    /// Where it is looked for, in words.
    pub(crate) fn described(&self) -> String {
        match self.place() {
            Ok(Place::Address(address)) => address,
            Ok(Place::Folder(folder)) => format!("the data folder {}", folder.path().display()),
            Err(_) => "no data folder".to_owned(),
        }
    }

    fn place(&self) -> Result<Place> {
        // Twice is no error: whoever was first chose ring too.
        drop(rustls::crypto::ring::default_provider().install_default());
        // A variable that is set to nothing is not set.
        if let Some(address) = self.server.as_ref().filter(|address| !address.is_empty()) {
            return Ok(Place::Address(address.clone()));
        }
        Ok(Place::Folder(self.folder()?))
    }

    fn folder(&self) -> Result<Folder> {
        let given = self.data_dir.clone().filter(|folder| !folder.as_os_str().is_empty());
        let folder = given.or_else(default_folder);
        let folder = folder
            .ok_or_else(|| Failure::new(Exit::Usage, "which server? set --server, --data-dir or HOME"))?;
        Ok(Folder::new(&folder)?)
    }
}

fn warn_of_another_version(way: &Way) {
    let Some(info) = way.info.as_ref().filter(|info| info.version != version::LINE) else { return };
    let (theirs, ours) = (&info.version, version::LINE);
    say!(
        "warning: the server is version {theirs} and this program {ours}: stop the server (its clusters go on) and \
         start it again with this program"
    );
}

impl Client {
    pub(crate) fn clusters(&self) -> ClusterServiceClient<Service> {
        ClusterServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
            .max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn actions(&self) -> ActionServiceClient<Service> {
        ActionServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
            .max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn templates(&self) -> ComputeTemplateServiceClient<Service> {
        ComputeTemplateServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
            .max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn images(&self) -> ImageTemplateServiceClient<Service> {
        ImageTemplateServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
            .max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn apps(&self) -> AppServiceClient<Service> {
        AppServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
            .max_decoding_message_size(LARGEST_ANSWER)
    }

    pub(crate) fn frameworks(&self) -> FrameworkServiceClient<Service> {
        FrameworkServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
    }

    pub(crate) fn admin(&self) -> AdminServiceClient<Service> {
        AdminServiceClient::with_interceptor(self.way.channel.clone(), self.way.credentials.clone())
    }

    /// What the server said of itself; nothing if it does not know us.
    pub(crate) fn info(&self) -> Option<&InfoResponse> {
        self.way.info.as_ref()
    }

    /// Whether it runs on this machine, as this user.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.place, Place::Folder(_))
    }

    /// Asks until somebody answers. Only for what may be asked twice: reads, and changes with a request id.
    pub(crate) async fn ask<T>(
        &mut self,
        call: impl AsyncFn(&Self) -> Result<Response<T>, Status>,
    ) -> Result<Response<T>, Failure> {
        loop {
            match call(self).await {
                Ok(answer) => {
                    self.heard();
                    return Ok(answer);
                }
                Err(status) if is_passing(&status) => {
                    self.come_back(&status, |text| say!("{text}")).await?;
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// It answers: whatever was wrong is over.
    pub(crate) fn heard(&mut self) {
        self.lost = None;
    }

    /// What stands in the way, if something does.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.lost.as_ref().map(|(_, why)| why.as_str())
    }

    /// Waits until a server is there again, in the same place if not at the same address. Only one that a command had
    /// started and that was killed is started again: whoever stopped it may have meant it. One that is there and does
    /// not do its work has as long as one that is not.
    pub(crate) async fn come_back(&mut self, why: &Status, tell: impl Fn(&str)) -> Result<(), Failure> {
        let first = self.lost.is_none();
        let (since, _) = self.lost.get_or_insert_with(|| (Instant::now(), why.message().to_owned()));
        let deadline = *since + COMING_BACK;
        if first && !connection_lost(why) {
            tell(&format!("waiting: {}", why.message()));
        }
        let mut told = false;
        loop {
            sleep(LOOK_AGAIN).await;
            let found = match &self.place {
                Place::Address(address) => channel::reach(address, self.token.as_deref()).await.ok(),
                Place::Folder(folder) => match folder.look(self.token.as_deref()).await {
                    Ok(Found::Answers(way)) => Some(*way),
                    Ok(Found::Nobody) if folder.has_died() => {
                        autostart::start(folder, self.token.as_deref()).await.ok()
                    }
                    _ => None,
                },
            };
            if Instant::now() > deadline {
                let seconds = COMING_BACK.as_secs();
                let what = format!("no server has answered for {seconds} s: {}", why.message());
                let hint = "what was accepted goes on when a server runs again: `muster actions` shows it";
                return Err(Failure::new(Exit::Failed, what).hint(hint));
            }
            if let Some(way) = found {
                self.way = way;
                return Ok(());
            }
            if !told {
                tell("the server went away: waiting for it to come back");
                told = true;
            }
        }
    }

    /// Waits until the server that was told to stop has.
    pub(crate) async fn gone(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + COMING_BACK;
        loop {
            let gone = match &self.place {
                Place::Address(address) => channel::reach(address, self.token.as_deref()).await.is_err(),
                Place::Folder(folder) => !folder.is_held()?,
            };
            if gone {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what =
                    format!("the server was told to stop, and has not within {} s", COMING_BACK.as_secs());
                return Err(Failure::new(Exit::TimedOut, what).hint("its log says what it does"));
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}
