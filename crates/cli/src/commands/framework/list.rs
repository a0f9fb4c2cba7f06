//! `muster framework list`.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::ListFrameworksResponse;

use super::found;
use crate::connect::ServerFlags;
use crate::format::{self, FormatFlag};
use crate::output;

/// List the frameworks, and where they were found
#[derive(Debug, Parser)]
pub(super) struct List {
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl List {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { format, server } = self;
            let message = ListFrameworksResponse { frameworks: found(&mut server.connect().await?).await? };
            format::list(
                format.format,
                &message.frameworks,
                "frameworks",
                &message,
                "no frameworks are known",
            )
        })
    }
}
