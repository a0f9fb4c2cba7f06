//! `muster machines`: lists machine types with their free and used slots, and prints their custom resource definitions.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use muster_machines::types::crds;
use muster_proto::v1alpha2::{ListMachineGroupsRequest, MachineGroup, MachineType};

use crate::connect::{Client, ServerFlags};
use crate::format::{self, FormatFlag};
use crate::output;

/// List the machine types on Kubernetes and their slots
///
/// Each line is a type: how many slots exist, how many are free (RESERVED) or used, and how many pods wait for one. -o wide
/// adds the pods that have slots and the pods that wait.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct MachinesCommand {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the custom resource definitions, for kubectl apply -f -
    Crds,
}

#[derive(Debug, Parser)]
struct List {
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl MachinesCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command, list } = self;
        match command {
            Some(Command::Crds) => print_crds(),
            None => list.run(),
        }
    }
}

fn print_crds() -> ExitCode {
    let documents: anyhow::Result<Vec<String>> = crds().iter().map(format::yaml).collect();
    output::exit(documents.map(|documents| output::print(&documents.join("---\n"))))
}

impl List {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { format, server } = self;
            let mut client = server.connect_to_existing().await?;
            let call = async |client: &Client| {
                client.machines().list_machine_groups(ListMachineGroupsRequest {}).await
            };
            let message = client.retry(call).await?.into_inner();
            let types: Vec<TypeLine> = message.machine_groups.iter().flat_map(lines).collect();
            let nothing = "no machines: create Machine objects on Kubernetes, see docs/machines.md";
            format::list(format.format, &types, "machineGroups", &message, nothing)
        })
    }
}

/// A machine type as a line of the list.
pub(crate) struct TypeLine {
    /// `GROUP/TYPE`.
    pub(crate) name: String,
    pub(crate) machine_type: MachineType,
}

fn lines(group: &MachineGroup) -> impl Iterator<Item = TypeLine> {
    let line = |machine_type: &MachineType| TypeLine {
        name: format!("{}/{}", group.name, machine_type.name),
        machine_type: machine_type.clone(),
    };
    group.types.iter().map(line)
}
