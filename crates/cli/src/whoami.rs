//! `muster whoami`: how a server sees the caller.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::WhoAmIRequest;

use crate::connect::{Client, ServerFlags};
use crate::output;

/// Say who you are to the server
#[derive(Debug, Parser)]
pub(crate) struct WhoAmI {
    #[command(flatten)]
    server: ServerFlags,
}

impl WhoAmI {
    pub(crate) fn run(self) -> ExitCode {
        let Self { server } = self;
        output::run(async {
            let mut client = server.connect().await?;
            let call = async |client: &Client| client.admin().who_am_i(WhoAmIRequest {}).await;
            let me = client.ask(call).await?.into_inner();
            Ok(output::print(&format!(
                "{} ({} {}), project {}, {}\n",
                me.name,
                me.scheme,
                me.id,
                me.project,
                me.roles.join(", ")
            )))
        })
    }
}
