//! `muster run`: runs a command with a cluster that is deleted when the command ends.
//!
//! Messages go to standard error; the command's output is untouched, and its exit status is passed on. Existing scripts
//! parse the messages: their wording is part of the interface.

mod app;
mod cleanup;
mod launch;
mod requirement;
mod script;
mod startup;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use super::create::Spec;
use super::program::{ClientEnvironment, Program};
use super::{environment, find_by_id, image, python, python_version, reachability};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::output::{self, message};
use crate::wait::{Deadline, parse_duration};
use app::Driver;
use cleanup::CleanUp;
use requirement::PythonRequirement;
use script::ScriptNeeds;
use startup::{DriverCluster, Startup};

/// The delay before an idle launcher asks again for the deletion of its cluster.
const CLEAN_UP_AGAIN: Duration = Duration::from_secs(5);

/// Run a command with its own cluster: muster run -- python script.py
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster run script.py\n  muster run --framework ray --workers 4 -- python script.py --fast\n  muster run --cluster fred --shared -- pytest"
)]
pub(crate) struct Run {
    /// The cluster to use; created if it does not exist
    #[arg(long, value_name = "NAME", add = crate::complete::clusters())]
    cluster: Option<String>,
    /// Keep the cluster when the command ends
    #[arg(long)]
    shared: bool,
    /// In a pod of a Deployment: keep the cluster when the Deployment is rolled out again
    #[arg(long)]
    across_rollouts: bool,
    /// How long to wait for a cluster that is incomplete or still used by another app
    #[arg(long, env = "MUSTER_RUN_WAIT", value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    wait: Duration,
    /// How long the creation of the cluster may take, and before it that of an environment with packages
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    spec: Spec,
    /// The namespace of the cluster [default in a pod: that of the pod; else see muster whoami]
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS")]
    namespace: Option<String>,
    #[command(flatten)]
    server: ServerFlags,
    /// The command and its arguments, or a Python file, which runs in the cluster's Python
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The command with what is known about its Python.
struct PreparedScript {
    program: Program,
    /// The Python with the packages of the flags and of the script.
    packages_python: Option<PathBuf>,
    /// The Python that the script requires.
    needs_python: Option<PythonRequirement>,
}

/// A run whose app is registered and whose cluster is still to be found or created.
struct PreparedRun {
    launcher: Launcher,
    startup: Startup,
    spec: Spec,
    program: PreparedScript,
    /// True if the launcher waits for a signal after the command has ended.
    idles: bool,
}

/// The client, namespace and app of one run.
struct Launcher {
    client: Client,
    namespace: String,
    driver: Driver,
}

impl Run {
    pub(crate) fn run(self) -> ExitCode {
        output::run(Box::pin(self.launch()))
    }

    async fn launch(self) -> Result<ExitCode> {
        // From the first line: the first process of a container gets only signals that it handles.
        let mut signals = launch::EndSignals::new()?;
        let prepared = tokio::select! {
            prepared = Box::pin(self.prepare()) => prepared?,
            signal = signals.next() => {
                message!("Received a termination signal");
                return Ok(ExitCode::from(128 + signal.number()));
            }
        };
        let PreparedRun { mut launcher, startup, spec, program, idles } = prepared;
        // From here on every exit has to clean up.
        let started = tokio::select! {
            started = Box::pin(startup.cluster(&mut launcher, &spec)) => started,
            signal = signals.next() => {
                message!("Received a termination signal");
                launcher.clean_up_by_name(startup.shared).await;
                return Ok(ExitCode::from(128 + signal.number()));
            }
        };
        let cluster = match started {
            Ok(cluster) => cluster,
            Err(failure) => {
                launcher.end_app().await;
                return Err(failure.into());
            }
        };
        let ended = match launcher.execute(&cluster, &program, &mut signals).await {
            Ok(ended) => ended,
            Err(error) => {
                launcher.clean_up(&cluster, cleanup::ReportedEnd::completed(None)).await;
                return Err(error);
            }
        };
        let end = cleanup::ReportedEnd { status: ended.status, exit_code: Some(ended.code) };
        let mut cleaned = launcher.clean_up(&cluster, end).await;
        if idles && !ended.was_interrupted() {
            message!("APP_EXIT is false: waiting for a termination signal");
            // While this process runs, its app is not gone: only this process can ask for the deletion.
            while cleaned == CleanUp::Unanswered
                && tokio::time::timeout(CLEAN_UP_AGAIN, signals.next()).await.is_err()
            {
                cleaned = launcher.clean_up(&cluster, end).await;
            }
            if cleaned == CleanUp::Answered {
                signals.next().await;
            } else {
                launcher.clean_up(&cluster, end).await;
            }
        }
        Ok(ExitCode::from(ended.exit_status()))
    }

    /// Checks the command and the flags, connects, builds what the cluster needs and registers the app. Nothing has to be
    /// deleted if this is interrupted: an app of a process ends with it.
    async fn prepare(mut self) -> Result<PreparedRun> {
        let program = find_program(&self.command)?;
        let needs = match &program {
            Program::Script { file, .. } => script::needs(file)?,
            Program::Executable { .. } => ScriptNeeds::default(),
        };
        let idles = app::switch("APP_EXIT")? == Some(false);
        self.shared |= app::switch("OSHINKO_DEL_CLUSTER")? == Some(false);
        let properties = self.spec.properties()?;
        if let Some(name) = app::variable("OSHINKO_NAMED_CONFIG") {
            self.spec.config.storedconfig.get_or_insert(name);
        }
        self.spec.check()?;
        let in_pod = app::pod_name();
        let namespace = match (&self.namespace, &in_pod) {
            (Some(given), _) => Some(given.clone()),
            (None, Some(_)) => Some(app::pod_namespace()),
            (None, None) => None,
        };
        if in_pod.is_some() {
            self.spec.provider.get_or_insert_with(|| "kubernetes".to_owned());
            self.server.use_pod_token();
        }
        let mut client = self.server.connect().await?;
        let namespace = match namespace {
            Some(given) => given,
            None => client.own_namespace().await?,
        };
        if !needs.packages.is_empty() && python::is_local(&client, self.spec.provider()) {
            self.check_packages_of_script()?;
            self.spec.packages.add(needs.packages);
        }
        let packages_python =
            self.spec.resolve(&mut client, &namespace, Deadline::after(self.timeout)).await?;
        let python = match &needs.python {
            Some(_) => self.expected_python(&mut client, &namespace, &program, packages_python.clone()).await,
            None => None,
        };
        let given = self.cluster.clone().or_else(|| app::variable("OSHINKO_CLUSTER_NAME"));
        let driver = Driver::register(
            &mut client,
            &namespace,
            self.spec.provider(),
            in_pod,
            given,
            self.across_rollouts,
        )
        .await?;
        let launcher = Launcher { client, namespace, driver };
        let startup = Startup {
            shared: self.shared,
            across_rollouts: self.across_rollouts,
            wait: self.wait,
            timeout: self.timeout,
            properties,
            python: needs.python.clone().zip(python),
        };
        let program = PreparedScript { program, packages_python, needs_python: needs.python };
        Ok(PreparedRun { launcher, startup, spec: self.spec, program, idles })
    }

    /// Refuses an image that is built already, into which the packages of a script cannot be installed.
    fn check_packages_of_script(&self) -> Result<(), Failure> {
        match &self.spec.image_template {
            Some(_) => {
                let what =
                    "--image-template cannot be used with a script that has dependencies in its metadata";
                Err(Failure::new(Exit::Usage, what)
                    .hint("leave out --image-template: an environment with the packages is built"))
            }
            None => Ok(()),
        }
    }

    /// Returns the interpreter that a script will run in with a new cluster, if that is known before.
    async fn expected_python(
        &self,
        client: &mut Client,
        namespace: &str,
        program: &Program,
        packages_python: Option<PathBuf>,
    ) -> Option<PathBuf> {
        let on_path = || program.interpreter(&ClientEnvironment::default());
        if packages_python.is_some() || !python::is_local(client, self.spec.provider()) {
            return packages_python.or_else(on_path);
        }
        if let Some(template) = &self.spec.image_template {
            return image::get(client, namespace, template).await.ok().map(|found| found.image.into());
        }
        if !self.spec.is_of_framework() {
            return on_path();
        }
        match self.spec.interpreter() {
            Some(python) => Some(python.into()),
            None => python::of_server(client, self.spec.framework()?).await,
        }
    }
}

/// Finds the command. A missing `python` is accepted: the cluster may bring the only one.
fn find_program(command: &[OsString]) -> Result<Program, Failure> {
    let found = Program::find(command, &std::env::var_os("PATH").unwrap_or_default());
    match command.split_first() {
        Some((file, arguments)) if found.is_err() && (file == "python" || file == "python3") => {
            Ok(Program::Executable { file: file.clone(), arguments: arguments.to_vec() })
        }
        _ => found.map_err(|mut failure| {
            failure.what.push_str(": nothing was created");
            failure
        }),
    }
}

impl Launcher {
    /// Runs the command with the cluster until it has ended.
    async fn execute(
        &mut self,
        cluster: &DriverCluster,
        program: &PreparedScript,
        signals: &mut launch::EndSignals,
    ) -> Result<launch::EndedCommand> {
        let command = Box::pin(self.prepare(cluster, program)).await?;
        Box::pin(self.follow(command, signals)).await
    }

    /// Builds the command with the environment of the cluster and the Python that has its packages.
    async fn prepare(
        &mut self,
        cluster: &DriverCluster,
        PreparedScript { program, packages_python, needs_python }: &PreparedScript,
    ) -> Result<std::process::Command, Failure> {
        let of_clients = environment(&mut self.client, &cluster.id).await?.variables;
        let mut client = ClientEnvironment::new(cluster.variables.clone(), of_clients);
        client.python = packages_python.clone().or(client.python);
        // A cluster that existed before may have another Python than a new one would have had.
        if let (Some(needed), Some(python)) = (needs_python, program.interpreter(&client)) {
            needed.check(&python).await?;
        }
        reachability::warn(&cluster.name, &client).await;
        let version = find_by_id(&mut self.client, &cluster.id).await?.python_version;
        python_version::warn(&cluster.name, &version, program, &client).await;
        let mut command = program.attached(&client, launch::has_own_group());
        command.env("MUSTER_APP", &self.driver.name);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_a_script_are_not_installed_into_a_built_image() {
        let check = |flags: &[&str]| {
            let run = Run::try_parse_from([&["run"], flags, &["job.py"]].concat()).expect("flags");
            run.check_packages_of_script()
        };
        for flags in [&["--pip", "six"][..], &["--python", "x"], &["--python", "x", "--pip", "six"]] {
            assert_eq!(check(flags), Ok(()), "{flags:?}");
        }
        let refused = check(&["--image-template", "x"]).expect_err("it is an image");
        assert_eq!(refused.exit, Exit::Usage);
    }
}
