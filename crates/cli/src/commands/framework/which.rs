//! `muster framework which`.

use std::process::ExitCode;

use clap::Parser;
use muster_core::ids::LOCAL_PROVIDER;

use super::list_frameworks;
use crate::commands::python;
use crate::connect::ServerFlags;
use crate::failure::{Exit, Failure};
use crate::output;

/// Print the Python interpreter of clusters that are created from here
#[derive(Debug, Parser)]
pub(super) struct Which {
    /// The framework: dask, ray or spark
    name: String,
    #[command(flatten)]
    server: ServerFlags,
}

impl Which {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, server } = self;
            let mut client = server.connect().await?;
            let known = list_frameworks(&mut client).await?;
            let Some(framework) = known.iter().find(|framework| framework.name == name) else {
                let names: Vec<&str> = known.iter().map(|framework| framework.name.as_str()).collect();
                let what = format!("framework '{name}' is unknown: use {}", names.join(", "));
                return Err(Failure::new(Exit::Usage, what).into());
            };
            // Fails as `create` does if `MUSTER_PYTHON` names a Python without the framework.
            python::resolve(&client, LOCAL_PROVIDER, &name, None).await?;
            if !framework.usable {
                let failure = Failure::new(Exit::NotFound, framework.missing.clone());
                return Err(failure.hint(format!("install it with `{}`", framework.command)).into());
            }
            Ok(output::print(&format!("{}\n", framework.interpreter)))
        })
    }
}
