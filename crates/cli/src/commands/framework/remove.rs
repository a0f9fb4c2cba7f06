//! `muster framework remove`.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::RemoveFrameworkRequest;

use crate::connect::ServerFlags;
use crate::failure::Failure;
use crate::output;

/// Remove a framework that Muster installed, with its added packages; refused while clusters use it
#[derive(Debug, Parser)]
pub(super) struct Remove {
    /// The framework: dask, ray or spark
    name: String,
    #[command(flatten)]
    server: ServerFlags,
}

impl Remove {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, server } = self;
            let client = server.connect().await?;
            let request = RemoveFrameworkRequest { name: name.clone() };
            client.frameworks().remove_framework(request).await.map_err(Failure::from)?;
            Ok(output::print(&format!("{name} removed\n")))
        })
    }
}
