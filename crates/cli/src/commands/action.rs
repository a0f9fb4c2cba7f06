//! `muster action show|cancel|signal`.

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use muster_proto::v1alpha2::{Action as Wire, CancelActionRequest, GetActionRequest, SignalActionRequest};
use muster_proto::wkt;

use super::request_id;
use crate::connect::{Client, ServerFlags};
use crate::format::{self, Format, FormatFlag};
use crate::output::message;
use crate::{output, table};

/// Show, cancel or signal one action
#[derive(Debug, Parser)]
pub(crate) struct Action {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show all details of an action
    Show(ActionTarget),
    /// Cancel an action; it ends at its next step
    Cancel(ActionTarget),
    /// Send an action the signal to suspend, resume or cancel
    Signal(Signalled),
}

#[derive(Debug, Parser)]
struct ActionTarget {
    /// Id of the action, as `muster actions` lists it, or its beginning, as `muster events` shows it
    #[arg(add = crate::complete::actions())]
    id: String,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Parser)]
struct Signalled {
    #[command(flatten)]
    target: ActionTarget,
    /// The signal to send
    signal: Signal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Signal {
    Suspend,
    Resume,
    Cancel,
}

impl Signal {
    const fn as_str(self) -> &'static str {
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
                Command::Show(target) => {
                    let request = GetActionRequest { id: target.id.clone() };
                    target.send(async |client| client.actions().get_action(request.clone()).await).await
                }
                Command::Cancel(target) => {
                    let request = CancelActionRequest {
                        id: target.id.clone(),
                        request_id: request_id(),
                        ..CancelActionRequest::default()
                    };
                    let ended = target
                        .send(async |client| client.actions().cancel_action(request.clone()).await)
                        .await?;
                    message!("cancelled; a running action ends at its next step");
                    Ok(ended)
                }
                Command::Signal(Signalled { target, signal }) => {
                    let request = SignalActionRequest {
                        id: target.id.clone(),
                        signal: signal.as_str().to_owned(),
                        request_id: request_id(),
                        ..SignalActionRequest::default()
                    };
                    target.send(async |client| client.actions().signal_action(request.clone()).await).await
                }
            }
        })
    }
}

impl ActionTarget {
    /// Sends a request about the action and prints the answer.
    async fn send(
        self,
        call: impl AsyncFn(&Client) -> Result<tonic::Response<Wire>, tonic::Status>,
    ) -> anyhow::Result<ExitCode> {
        let Self { id: _, format, server } = self;
        let mut client = server.connect_to_existing().await?;
        let action = client.retry(call).await?.into_inner();
        Ok(output::print(&match format.format {
            Format::Json => format::json(&action)?,
            Format::Yaml => format::yaml(&action)?,
            Format::Name => format!("{}\n", action.id),
            Format::Table | Format::Wide => render(&action),
        }))
    }
}

/// Renders all fields, one per line.
fn render(action: &Wire) -> String {
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
