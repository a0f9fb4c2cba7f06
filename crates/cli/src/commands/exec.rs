//! `muster exec` and `muster shell`: replace this process by a program with the variables and Python of a cluster.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_core::cluster::Framework;
use muster_frameworks::{ClientShell, client_shell};
use muster_proto::v1alpha2::Cluster;

use super::program::{ClientEnvironment, Program};
use super::{ClusterFlags, environment, python_version, reachability};
use crate::failure::{Exit, Failure};
use crate::output;

/// Run a command with the variables of a cluster, and its Python first on PATH: muster exec NAME -- python script.py
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  muster exec fred script.py\n  muster exec fred -- python -m pytest")]
pub(crate) struct Exec {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The command and its arguments, or a Python file, which runs in the cluster's Python
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, command } = self;
            let (cluster, environment) = connect(&cluster).await?;
            let program = Program::find(&command, &environment.path())?;
            python_version::warn(&cluster.name, &cluster.python_version, &program, &environment).await;
            become_program(&program, &environment)
        })
    }
}

/// Open a shell that is connected to a cluster: Python with a client, or pyspark
#[derive(Debug, Parser)]
pub(crate) struct Shell {
    #[command(flatten)]
    cluster: ClusterFlags,
}

impl Shell {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let (cluster, environment) = connect(&self.cluster).await?;
            let framework = cluster.framework.parse::<Framework>().ok();
            let Some(shell) = framework.and_then(client_shell) else {
                let what =
                    format!("cluster '{}' has no shell: only Dask, Ray and Spark clusters do", cluster.name);
                return Err(Failure::new(Exit::Refused, what).into());
            };
            let words = shell_command(shell, environment.python.as_deref());
            become_program(&Program::find(&words, &environment.path())?, &environment)
        })
    }
}

/// Finds the cluster and its environment for programs; warns if its address is not reachable from here.
async fn connect(flags: &ClusterFlags) -> Result<(Cluster, ClientEnvironment)> {
    let (mut client, cluster) = flags.find().await?;
    let of_clients = environment(&mut client, &cluster.id).await?.variables;
    let environment = ClientEnvironment::new(cluster.envs.clone(), of_clients);
    reachability::warn(&cluster.name, &environment).await;
    Ok((cluster, environment))
}

/// Runs the program in place of this process, so that signals, the terminal and the exit status are its own.
fn become_program(program: &Program, environment: &ClientEnvironment) -> Result<ExitCode> {
    let error = program.plain(environment).exec();
    Err(Failure::new(Exit::CannotRun, format!("cannot run the command: {error}")).into())
}

fn has_ipython(python: &Path) -> bool {
    python.parent().is_some_and(|folder| folder.join("ipython").exists())
}

/// Builds the command line of a shell: the cluster's Python if it is on this machine, with `IPython` if installed
/// there.
fn shell_command(shell: ClientShell, python: Option<&Path>) -> Vec<OsString> {
    let code = match shell {
        ClientShell::Program(name) => return vec![name.into()],
        ClientShell::Python(code) => code,
    };
    let program = match python {
        Some(python) if has_ipython(python) => "ipython".into(),
        Some(python) => python.into(),
        None => "python3".into(),
    };
    vec![program, "-i".into(), "-c".into(), code.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_python_with_a_client_or_a_program_of_the_framework() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python");
        let line = |python: Option<&Path>| shell_command(ClientShell::Python("import x"), python);
        assert_eq!(line(None), ["python3", "-i", "-c", "import x"]);
        assert_eq!(line(Some(&python))[0], python);
        std::fs::write(folder.path().join("ipython"), "").unwrap();
        assert_eq!(line(Some(&python)), ["ipython", "-i", "-c", "import x"]);
        assert_eq!(shell_command(ClientShell::Program("pyspark"), Some(&python)), ["pyspark"]);
    }
}
