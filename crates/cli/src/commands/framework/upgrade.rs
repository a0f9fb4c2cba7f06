//! `muster framework upgrade`.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Framework, UpgradeFrameworkRequest};

use super::progress::{self, FrameworkResults};
use crate::connect::ServerFlags;
use crate::format::FormatFlag;
use crate::output;

/// Upgrade an installed framework to the version of this release, and its added packages to their newest versions
#[derive(Debug, Parser)]
pub(super) struct Upgrade {
    /// The framework: dask, ray or spark
    name: String,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Upgrade {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, format, server } = self;
            let client = server.connect().await?;
            let request = UpgradeFrameworkRequest { name: name.clone() };
            let mut frameworks = client.frameworks();
            let answers = frameworks.upgrade_framework(request);
            let (framework, _) = progress::follow(answers, &name, "upgrade").await?;
            let Framework { version, interpreter, packages, .. } = &framework;
            let with =
                if packages.is_empty() { String::new() } else { format!(" with {}", packages.join(", ")) };
            let line = format!("{name} {version}{with} is up to date: {interpreter}");
            let mut outcome = FrameworkResults::new(format.format);
            outcome.add(&line, framework);
            outcome.print()
        })
    }
}
