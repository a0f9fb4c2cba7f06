//! `muster framework`: what local clusters can run, and bringing what they cannot run yet.

mod install;
mod list;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_core::cluster::Framework as Word;
use muster_local::environments::{Environment, Source};
use muster_proto::v1alpha2::{Framework, ListFrameworksRequest};

use super::python;
use crate::connect::Client;
use crate::failure::Failure;

/// Look at the frameworks that run on this machine, and install them
#[derive(Debug, Parser)]
pub(crate) struct FrameworkCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Install(install::Install),
}

impl FrameworkCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::List(list) => list.run(),
            Command::Install(install) => install.run(),
        }
    }
}

/// What clusters that are made from here run in: the caller's own Python comes first, as it does when they are made.
async fn found(client: &mut Client) -> Result<Vec<Framework>, Failure> {
    let call = async |client: &Client| client.frameworks().list_frameworks(ListFrameworksRequest {}).await;
    let mut frameworks = client.ask(call).await?.into_inner().frameworks;
    for framework in &mut frameworks {
        // One that could not even be installed lacks more than an environment.
        if !framework.usable && !framework.installable {
            continue;
        }
        if let Some(own) = of_caller(client, &framework.name).await {
            framework.usable = true;
            framework.version = own.version;
            framework.interpreter = own.python.to_string_lossy().into_owned();
            own.source.as_str().clone_into(&mut framework.source);
            framework.missing.clear();
            framework.command.clear();
        }
    }
    Ok(frameworks)
}

/// The caller's own environment, if it has the framework and the server can use it.
async fn of_caller(client: &Client, name: &str) -> Option<Environment> {
    let framework = muster_frameworks::local(name.parse::<Word>().ok()?)?;
    let (interpreter, source) = python::of_local_caller(client)?;
    Environment::of(interpreter, source, framework).await.ok()
}

/// What is wrong with the caller's `MUSTER_PYTHON`, if no framework was found in it.
async fn vain_variable(client: &Client) -> Option<String> {
    let (interpreter, _) =
        python::of_local_caller(client).filter(|(_, source)| *source == Source::Variable)?;
    let mut why = None;
    for framework in muster_frameworks::all_local() {
        match Environment::of(interpreter.clone(), Source::Variable, framework).await {
            Ok(_) => return None,
            Err(error) => why = why.or(Some(error)),
        }
    }
    let why = why?;
    Some(format!("MUSTER_PYTHON is {}, which has none of them: {why}", interpreter.display()))
}
