//! `muster action show|cancel|signal`: one action.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use muster_proto::v1alpha2::{Action as Wire, CancelActionRequest, GetActionRequest, SignalActionRequest};
use muster_proto::wkt;

use super::request_id;
use crate::connect::{Client, ServerFlags};
use crate::format::{self, FormatFlag};
use crate::{output, table};

/// Look at one action, or tell it something
#[derive(Debug, Parser)]
pub(crate) struct Action {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show an action with everything that is known of it
    Show(Told),
    /// End an action at its next step
    Cancel(Told),
    /// Tell an action to suspend, to resume or to end
    Signal(Signalled),
}

#[derive(Debug, Parser)]
struct Told {
    /// Its id, as `muster actions` lists it, or the beginning of it, as `muster events` shows it
    id: String,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Parser)]
struct Signalled {
    #[command(flatten)]
    told: Told,
    /// What to tell it
    signal: Signal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Signal {
    Suspend,
    Resume,
    Cancel,
}

impl Signal {
    const fn word(self) -> &'static str {
        match self {
            Self::Suspend => "SUSPEND",
            Self::Resume => "RESUME",
            Self::Cancel => "CANCEL",
        }
    }
}

impl Action {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        output::run(async {
            match command {
                Command::Show(told) => {
                    let request = GetActionRequest { id: told.id.clone() };
                    told.ask(async |client| client.actions().get_action(request.clone()).await).await
                }
                Command::Cancel(told) => {
                    let request = CancelActionRequest {
                        id: told.id.clone(),
                        request_id: request_id(),
                        ..CancelActionRequest::default()
                    };
                    told.ask(async |client| client.actions().cancel_action(request.clone()).await).await
                }
                Command::Signal(Signalled { told, signal }) => {
                    let request = SignalActionRequest {
                        id: told.id.clone(),
                        signal: signal.word().to_owned(),
                        request_id: request_id(),
                        ..SignalActionRequest::default()
                    };
                    told.ask(async |client| client.actions().signal_action(request.clone()).await).await
                }
            }
        })
    }
}

impl Told {
    async fn ask(
        self,
        call: impl AsyncFn(&Client) -> Result<tonic::Response<Wire>, tonic::Status>,
    ) -> anyhow::Result<ExitCode> {
        let Self { id: _, format, server } = self;
        let mut client = server.connect().await?;
        let action = client.ask(call).await?.into_inner();
        format::one(format.format, &action, |_| described(&action))
    }
}

/// Everything, a line each.
fn described(action: &Wire) -> String {
    let object = |given: &Option<wkt::Struct>| {
        given.as_ref().and_then(|given| serde_json::to_string(given).ok()).unwrap_or_default()
    };
    let moment = |at: Option<wkt::Timestamp>| at.map(table::moment).unwrap_or_default();
    table::pairs(&[
        ("id", action.id.clone()),
        ("action", action.action.clone()),
        ("status", action.status.clone()),
        ("reason", action.status_reason.clone()),
        ("milestones", action.milestones.join(", ")),
        ("cluster", action.cluster_id.clone()),
        ("target", action.target.clone()),
        ("cause", action.cause.clone()),
        ("user", action.user.clone()),
        ("project", action.project.clone()),
        ("door", action.door.clone()),
        ("parent", action.parent.clone()),
        ("inputs", object(&action.inputs)),
        ("outputs", object(&action.outputs)),
        ("created", moment(action.created_at)),
        ("started", moment(action.started_at)),
        ("applied", moment(action.applied_at)),
        ("ended", moment(action.ended_at)),
    ])
}
