//! `muster machines`: what Kubernetes needs to know of machines.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use muster_machines::types::crds;

use crate::format;
use crate::output;

/// Named machine types on Kubernetes, whose slots are reserved
#[derive(Debug, Parser)]
pub(crate) struct MachinesCommand {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Debug, Subcommand)]
enum Deed {
    /// Print the custom resource definitions, for kubectl apply -f -
    Crds,
}

impl MachinesCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { deed: Deed::Crds } = self;
        let documents: anyhow::Result<Vec<String>> = crds().iter().map(format::yaml).collect();
        output::exit(documents.map(|documents| output::print(&documents.join("---\n"))))
    }
}
