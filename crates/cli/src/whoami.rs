//! `muster whoami`: prints how the server identifies the caller.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::WhoAmIResponse;

use crate::commands::select::who_am_i;
use crate::connect::ServerFlags;
use crate::format::{self, Format, FormatFlag};
use crate::output;

/// Print how the server identifies you
#[derive(Debug, Parser)]
pub(crate) struct WhoAmI {
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl WhoAmI {
    pub(crate) fn run(self) -> ExitCode {
        let Self { format, server } = self;
        output::run(async {
            let mut client = server.connect().await?;
            let me = who_am_i(&mut client).await?;
            Ok(output::print(&match format.format {
                Format::Json => format::json(&me)?,
                Format::Yaml => format::yaml(&me)?,
                Format::Name => format!("{}\n", me.name),
                Format::Table | Format::Wide => line(&me),
            }))
        })
    }
}

fn line(me: &WhoAmIResponse) -> String {
    let WhoAmIResponse { scheme, id, name, project, roles, namespace } = me;
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace {namespace}") };
    format!("{name} ({scheme} {id}), project {project}{namespace}, {}\n", roles.join(", "))
}
