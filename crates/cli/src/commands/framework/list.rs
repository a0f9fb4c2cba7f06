//! `muster framework list`.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::ListFrameworksResponse;

use super::{explain_unused_variable, list_frameworks};
use crate::connect::ServerFlags;
use crate::format::{self, Format, FormatFlag};
use crate::output;

/// List the frameworks and where they were found
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
            let mut client = server.connect().await?;
            let message = ListFrameworksResponse { frameworks: list_frameworks(&mut client).await? };
            let nothing = "no frameworks";
            let listed = format::list(format.format, &message.frameworks, "frameworks", &message, nothing)?;
            if matches!(format.format, Format::Table | Format::Wide)
                && let Some(message) = explain_unused_variable(&client).await
            {
                output::print(&format!("{message}\n"));
            }
            Ok(listed)
        })
    }
}
