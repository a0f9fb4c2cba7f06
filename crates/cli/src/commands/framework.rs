//! `muster framework`: lists, installs, upgrades and removes the frameworks of local clusters.

mod install;
mod list;
mod progress;
mod remove;
mod upgrade;
mod which;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_local::environments::{Environment, EnvironmentSource};
use muster_proto::v1alpha2::{Framework, ListFrameworksRequest};

use super::python;
use crate::connect::Client;
use crate::failure::Failure;

/// List, install, upgrade and remove the frameworks of this machine
#[derive(Debug, Parser)]
pub(crate) struct FrameworkCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Install(install::Install),
    Upgrade(upgrade::Upgrade),
    #[command(alias = "rm")]
    Remove(remove::Remove),
    Which(which::Which),
}

impl FrameworkCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::List(list) => list.run(),
            Command::Install(install) => install.run(),
            Command::Upgrade(upgrade) => upgrade.run(),
            Command::Remove(remove) => remove.run(),
            Command::Which(which) => which.run(),
        }
    }
}

/// The source that the server reports for frameworks that Muster installed.
const INSTALLED: &str = EnvironmentSource::Installed.as_str();

/// Lists the frameworks as clusters created from here would use them: the caller's active Python takes precedence.
async fn list_frameworks(client: &mut Client) -> Result<Vec<Framework>, Failure> {
    let call = async |client: &Client| client.frameworks().list_frameworks(ListFrameworksRequest {}).await;
    let mut frameworks = client.retry(call).await?.into_inner().frameworks;
    for framework in &mut frameworks {
        // A framework that cannot be installed lacks more than an environment.
        if !framework.usable && !framework.installable {
            continue;
        }
        if let Some(own) = python::find_callers_environment(client, &framework.name).await {
            framework.usable = true;
            framework.version = own.version;
            framework.interpreter = own.python.to_string_lossy().into_owned();
            own.source.as_str().clone_into(&mut framework.source);
            framework.missing.clear();
            framework.command.clear();
            framework.packages.clear();
        }
    }
    Ok(frameworks)
}

/// Explains why the caller's `MUSTER_PYTHON` has no effect, if no framework was found in it.
async fn explain_unused_variable(client: &Client) -> Option<String> {
    let interpreter = python::named_by_variable(client)?;
    let mut why = None;
    for framework in muster_frameworks::all_local() {
        match Environment::probe(interpreter.clone(), EnvironmentSource::Variable, framework).await {
            Ok(_) => return None,
            Err(error) => why = why.or(Some(error)),
        }
    }
    let why = why?;
    Some(format!("MUSTER_PYTHON is {}, which has none of these frameworks: {why}", interpreter.display()))
}
