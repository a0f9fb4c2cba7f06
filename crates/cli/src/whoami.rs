//! `muster whoami`: how a server sees the caller.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::WhoAmIRequest;
use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;

use crate::connect::ServerFlags;
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
        output::exit(run(&server))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(server: &ServerFlags) -> Result<ExitCode> {
    let connection = server.connect().await?;
    let mut admin = AdminServiceClient::with_interceptor(connection.channel, connection.credentials);
    let me = match admin.who_am_i(WhoAmIRequest {}).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return Ok(output::refused(&status)),
    };
    Ok(output::print(&format!(
        "{} ({} {}), project {}, {}\n",
        me.name,
        me.scheme,
        me.id,
        me.project,
        me.roles.join(", ")
    )))
}
