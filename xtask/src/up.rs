//! `cargo xtask up`: build Muster, start it with the embedded defaults, and print what to type next.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::{layout, step};

#[derive(Debug, Parser)]
pub(crate) struct Up {
    /// Passed on to `muster serve`
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Up {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { arguments } = self;
        let mut cargo = layout::cargo()?;
        step::run("building muster", cargo.args(["build", "--locked", "--workspace", "--bin", "muster"]))?;
        print!("{HINTS}");
        let mut serve = Command::new(layout::target()?.join("debug/muster"));
        serve.args(["serve", "--dev"]).args(arguments);
        // In our place, so that Ctrl-C and SIGTERM reach the server.
        Err(serve.exec()).context("cannot start muster")
    }
}

/// Three things to try in another terminal.
const HINTS: &str = r#"
Muster starts now, with simulated nodes; Ctrl-C stops it. In another terminal:

    api=http://127.0.0.1:8888/apis/v1alpha2/namespaces/demo/clusters
    curl -s $api -H 'content-type: application/json' \
         -d '{"name":"fred","profile":"simulated.node-1.0","cluster_spec":{"worker_group_spec":[{"group_name":"small","replicas":3}]}}'
    curl -s $api/fred/scale -H 'content-type: application/json' -d '{"replicas":5,"wait_for":"reached"}'
    curl -s $api/fred/nodes

"#;
