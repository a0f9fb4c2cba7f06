//! `muster app`: lists, attaches and detaches the apps that use clusters.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use muster_proto::v1alpha2::{App, AttachAppRequest, DetachAppRequest, ListAppsRequest, ListAppsResponse};

use super::{NamespaceFlag, PAGE, pages};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::format::{self, Format, FormatFlag};
use crate::output;

/// The message that is printed if no app uses a cluster.
const NOTHING: &str = "no apps: `muster run` and `muster app attach` register apps";

/// List, attach and detach the apps that use clusters
#[derive(Debug, Parser)]
pub(crate) struct AppCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Register an app as a user of a cluster
    Attach(Attachment),
    /// End an app's use of a cluster
    Detach(Attachment),
    /// List apps and the clusters that they use
    List(List),
}

#[derive(Debug, Args)]
struct Attachment {
    /// The app: a name, kind/name such as deploy/bob, or the name of a pod
    app: String,
    /// The cluster
    #[arg(long, value_name = "NAME")]
    cluster: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Args)]
struct List {
    /// List only apps that use this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    /// List apps of all namespaces
    #[arg(short = 'A', long, conflicts_with = "cluster")]
    all_namespaces: bool,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl AppCommand {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Attach(change) => change.run(true),
            Command::Detach(change) => change.run(false),
            Command::List(list) => list.run(),
        }
    }
}

impl Attachment {
    fn run(self, attach: bool) -> ExitCode {
        output::run(async {
            let Self { app, cluster, namespace, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let answer = if attach {
                let request = AttachAppRequest {
                    namespace,
                    cluster: cluster.clone(),
                    app,
                    ..AttachAppRequest::default()
                };
                client.retry(async |client| client.apps().attach_app(request.clone()).await).await?
            } else {
                let request = DetachAppRequest {
                    namespace,
                    cluster: cluster.clone(),
                    app,
                    ..DetachAppRequest::default()
                };
                client.retry(async |client| client.apps().detach_app(request.clone()).await).await?
            };
            let App { kind, name, .. } = answer.into_inner();
            let verb = if attach { "uses" } else { "does not use" };
            Ok(output::print(&format!("app {kind}/{name} {verb} cluster {cluster}\n")))
        })
    }
}

impl List {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, namespace, all_namespaces, format, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace =
                if all_namespaces { "-".to_owned() } else { namespace.resolve(&mut client).await? };
            let request = ListAppsRequest {
                namespace,
                cluster: cluster.unwrap_or_default(),
                ..ListAppsRequest::default()
            };
            let only = request.cluster.clone();
            let apps = list(&mut client, request).await?;
            if matches!(format.format, Format::Table | Format::Wide) {
                let lines = lines(&apps, &only);
                return format::list(format.format, &lines, "apps", &ListAppsResponse::default(), NOTHING);
            }
            let message = ListAppsResponse { apps, ..ListAppsResponse::default() };
            format::list(format.format, &message.apps, "apps", &message, NOTHING)
        })
    }
}

/// Returns one line for each use of a cluster; with `only`, just for that cluster.
fn lines(apps: &[App], only: &str) -> Vec<App> {
    let of = |app: &App| {
        let uses = app.uses.iter().filter(|used| only.is_empty() || used.cluster == only);
        uses.map(|used| App { uses: vec![used.clone()], ..app.clone() }).collect::<Vec<_>>()
    };
    apps.iter().flat_map(of).collect()
}

/// Lists all apps that a request selects.
pub(super) async fn list(client: &mut Client, request: ListAppsRequest) -> Result<Vec<App>, Failure> {
    pages(async |page_token| {
        let request = ListAppsRequest { page_size: PAGE, page_token, ..request.clone() };
        let answer = client.retry(async |client| client.apps().list_apps(request.clone()).await).await?;
        let answer = answer.into_inner();
        Ok((answer.apps, answer.next_page_token))
    })
    .await
}
