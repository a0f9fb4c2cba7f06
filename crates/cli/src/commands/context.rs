//! `muster context`: manages the servers that the user has logged in to.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_core::time::Timestamp;
use serde::Serialize;

use crate::contexts::Contexts;
use crate::format::{self, FormatFlag};
use crate::output;
use crate::table::Listed;

/// List, select and delete the servers that you have logged in to
#[derive(Debug, Parser)]
pub(crate) struct ContextCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the contexts
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatFlag,
    },
    /// Select the context that commands use
    Use {
        /// Name of the context
        #[arg(required_unless_present = "none", add = crate::complete::contexts())]
        name: Option<String>,
        /// Use no context, but the server of the data folder
        #[arg(long, conflicts_with = "name")]
        none: bool,
    },
    /// Delete a context with its token
    #[command(alias = "rm")]
    Delete {
        /// Name of the context
        #[arg(add = crate::complete::contexts())]
        name: String,
    },
}

impl ContextCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        output::exit(match command {
            Command::List { format } => list(&format),
            Command::Use { name, .. } => choose(name),
            Command::Delete { name } => delete(&name),
        })
    }
}

/// A context in a list; its token is not shown.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    server: String,
    current: bool,
}

impl Listed for Line {
    fn titles(_: bool) -> Vec<&'static str> {
        vec!["NAME", "SERVER", "CURRENT"]
    }

    fn line(&self, _: bool, _: Timestamp) -> Vec<String> {
        let current = if self.current { "yes" } else { "" };
        vec![self.name.clone(), self.server.clone(), current.to_owned()]
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }
}

fn list(format: &FormatFlag) -> Result<ExitCode> {
    let Contexts { current, all } = Contexts::read()?;
    let lines: Vec<Line> = all
        .into_iter()
        .map(|context| Line { current: context.name == current, name: context.name, server: context.server })
        .collect();
    format::array(format.format, &lines, "no contexts: `muster login URL` creates one")
}

fn choose(name: Option<String>) -> Result<ExitCode> {
    let mut contexts = Contexts::read()?;
    let Some(name) = name else {
        contexts.current.clear();
        contexts.write()?;
        return Ok(output::print("commands use the server of the data folder\n"));
    };
    let server = contexts.named(&name)?.server.clone();
    contexts.current.clone_from(&name);
    contexts.write()?;
    Ok(output::print(&format!("commands use context '{name}' ({server})\n")))
}

fn delete(name: &str) -> Result<ExitCode> {
    let mut contexts = Contexts::read()?;
    contexts.named(name)?;
    contexts.all.retain(|context| context.name != name);
    if contexts.current == name {
        contexts.current.clear();
    }
    contexts.write()?;
    Ok(output::print(&format!("context '{name}' deleted\n")))
}
