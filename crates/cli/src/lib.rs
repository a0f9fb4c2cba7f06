//! The command line of Muster, and the place where its parts are wired together.

mod connect;
mod output;
mod serve;
mod token;
mod version;
mod whoami;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One control plane for Ray, Dask and Spark clusters, on a laptop or on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "muster", version = version::LINE, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    Whoami(whoami::WhoAmI),
    Token(token::Token),
    /// Print the version and the commit it was built from
    Version(version::Version),
}

impl Args {
    /// Does what was asked for, and says how it ended.
    pub fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::Serve(serve) => serve.run(),
            Command::Whoami(whoami) => whoami.run(),
            Command::Token(token) => token.run(),
            Command::Version(version) => version.run(),
        }
    }
}
