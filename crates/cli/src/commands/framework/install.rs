//! `muster framework install`.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Framework, InstallFrameworkRequest};
use tonic::Status;

use super::found;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure, connection_lost};
use crate::output::{self, Spinner, harmless, say};

/// All that can be installed.
const ALL: &str = "all";

/// Install a framework for clusters on this machine, unless it is there
#[derive(Debug, Parser)]
pub(super) struct Install {
    /// Which one: dask, ray; or all that can be installed
    #[arg(value_name = "NAME|all")]
    name: String,
    #[command(flatten)]
    server: ServerFlags,
}

impl Install {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, server } = self;
            let mut client = server.connect().await?;
            let known = found(&mut client).await?;
            let (chosen, others): (Vec<Framework>, Vec<Framework>) =
                known.into_iter().partition(|framework| match name.as_str() {
                    ALL => framework.installable,
                    name => framework.name == name,
                });
            if name == ALL {
                for other in others {
                    say!("{}: {}", other.name, other.missing);
                }
            } else if chosen.is_empty() {
                // The server says which there are.
                install(&client, &name).await?;
            }
            for framework in chosen {
                let line = if framework.usable {
                    there(&framework)
                } else {
                    install(&client, &framework.name).await?
                };
                if output::print(&line) != ExitCode::SUCCESS {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn there(framework: &Framework) -> String {
    let Framework { name, version, interpreter, source, .. } = framework;
    format!("{name} {version} is there already: {interpreter} ({source})\n")
}

/// Installs one, shows how far it is, and says what came of it.
async fn install(client: &Client, name: &str) -> Result<String, Failure> {
    let spinner = Spinner::new(format!("{name}: installing"));
    tokio::select! {
        ended = follow(client, name, &spinner) => ended,
        _ = tokio::signal::ctrl_c() => {
            let what = format!("stopped: {name} is not installed");
            Err(Failure::new(Exit::Interrupted, what).hint("the next installation begins anew"))
        }
    }
}

async fn follow(client: &Client, name: &str, spinner: &Spinner) -> Result<String, Failure> {
    let request = InstallFrameworkRequest { name: name.to_owned() };
    let broken = |status: Status| {
        let lost = connection_lost(&status);
        let failure = Failure::from(status);
        if lost { failure.hint(format!("`muster framework install {name}` begins anew")) } else { failure }
    };
    let mut told = client.frameworks().install_framework(request).await.map_err(broken)?.into_inner();
    while let Some(message) = told.message().await.map_err(broken)? {
        let Some(framework) = message.framework else {
            spinner.show(format!("{name}: {}", harmless(&message.progress)));
            continue;
        };
        let Framework { name, version, interpreter, .. } = &framework;
        return Ok(if message.already_there {
            there(&framework)
        } else {
            format!("{name} {version} is installed: {interpreter}\n")
        });
    }
    Err(broken(Status::unknown("it ended without a result")))
}
