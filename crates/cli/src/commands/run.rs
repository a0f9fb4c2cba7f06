//! `muster run`: a command with a cluster of its own, which ends with it.
//!
//! Everything that it says goes to standard error; the command's output is untouched, and its exit status is passed on.

mod app;
mod cleanup;
mod launch;
mod program;
mod reach;
mod script;
mod startup;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use super::create::Spec;
use super::{DEFAULT_NAMESPACE, python};
use crate::connect::{Client, ServerFlags};
use crate::failure::Failure;
use crate::output::{self, say};
use crate::wait::duration;
use app::Driver;
use program::Program;
use startup::{Cluster, Startup};

/// Run a command with a cluster of its own: muster run -- python script.py
#[derive(Debug, Parser)]
pub(crate) struct Run {
    /// The cluster to use; one is made if it is not there
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Leave the cluster when the command ends
    #[arg(long)]
    shared: bool,
    /// In a pod of a Deployment: keep the cluster when the Deployment is rolled out again
    #[arg(long)]
    across_rollouts: bool,
    /// How long to wait for a cluster that is not complete, or that another app is about to leave
    #[arg(long, env = "MUSTER_RUN_WAIT", value_name = "DURATION", default_value = "1m", value_parser = duration)]
    wait: Duration,
    /// How long the creation of the cluster may take
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    #[command(flatten)]
    spec: Spec,
    /// The namespace of the cluster; in a pod that of the pod
    #[arg(short = 'n', long, env = "MUSTER_NAMESPACE", value_name = "NS")]
    namespace: Option<String>,
    #[command(flatten)]
    server: ServerFlags,
    /// The command and its arguments, or a Python file, which runs in the cluster's Python
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a launcher in a pod and one on a laptop have in common.
struct Launcher {
    client: Client,
    namespace: String,
    driver: Driver,
}

impl Run {
    pub(crate) fn run(self) -> ExitCode {
        output::run(Box::pin(self.launch()))
    }

    async fn launch(mut self) -> Result<ExitCode> {
        let program = Program::find(&self.command)?;
        if let Some(name) = app::variable("OSHINKO_NAMED_CONFIG") {
            self.spec.config.storedconfig.get_or_insert(name);
        }
        self.spec.check()?;
        let in_pod = app::pod_name();
        let namespace = match (&self.namespace, &in_pod) {
            (Some(given), _) => given.clone(),
            (None, Some(_)) => app::pod_namespace(),
            (None, None) => DEFAULT_NAMESPACE.to_owned(),
        };
        if in_pod.is_some() {
            self.spec.provider.get_or_insert_with(|| "kubernetes".to_owned());
            self.server.use_pod_token();
        }
        self.shared |= app::variable("OSHINKO_DEL_CLUSTER").is_some_and(|value| value == "false");
        let mut client = self.server.connect().await?;
        self.spec.resolve_python(&client).await?;
        let mut script_python = None;
        if let Program::Script { file, .. } = &program
            && python::is_local(&client, self.spec.provider())
        {
            let dependencies = script::dependencies(file)?;
            if !dependencies.is_empty() {
                let (name, image) = script::environment(&mut client, &namespace, dependencies).await?;
                (self.spec.image, self.spec.image_template) = (None, Some(name));
                script_python = Some(image);
            }
        }
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
        let mut launcher = Launcher { client, namespace, driver };
        let startup = Startup {
            shared: self.shared,
            across_rollouts: self.across_rollouts,
            wait: self.wait,
            timeout: self.timeout,
        };
        // From here on something may have to be cleaned up, however this ends.
        let mut signals = launch::Signals::new()?;
        let started = tokio::select! {
            started = Box::pin(startup.cluster(&mut launcher, &self.spec)) => started,
            signal = signals.next() => {
                say!("Received a termination signal");
                launcher.clean_up_by_name(startup.shared).await;
                return Ok(ExitCode::from(128 + signal.number()));
            }
        };
        let cluster = match started {
            Ok(cluster) => Cluster { python: script_python.or(cluster.python), ..cluster },
            Err(failure) => {
                launcher.end_app().await;
                return Err(failure.into());
            }
        };
        let prepared = Box::pin(launcher.prepare(&cluster, &program)).await;
        let command = match prepared {
            Ok(command) => command,
            Err(failure) => {
                launcher.clean_up(&cluster, cleanup::End::completed(None)).await;
                return Err(failure.into());
            }
        };
        let ended = Box::pin(launcher.follow(command, &mut signals)).await?;
        launcher.clean_up(&cluster, cleanup::End { status: ended.status, exit_code: Some(ended.code) }).await;
        if app::variable("APP_EXIT").is_some_and(|value| value == "false") && !ended.was_interrupted() {
            say!("APP_EXIT is false: waiting for a termination signal");
            signals.next().await;
        }
        Ok(ExitCode::from(ended.exit_status()))
    }
}

impl Launcher {
    /// The variables of the cluster, once it is known that they are of use here.
    async fn prepare(
        &mut self,
        cluster: &Cluster,
        program: &Program,
    ) -> Result<std::process::Command, Failure> {
        let variables = self.environment(cluster).await?;
        if let Some(address) = variables.get("MUSTER_ADDRESS")
            && let Err(why) = reach::check(address).await
        {
            say!("warning: cluster '{}' cannot be reached from here: {why}", cluster.name);
            if !cluster.is_local {
                say!(
                    "hint: a cluster on Kubernetes is reached from pods: run this in one, or use --provider local"
                );
            }
        }
        let python = match (&cluster.python, program) {
            (None, Program::Script { .. }) if cluster.is_local => {
                self.interpreter(&cluster.framework).await?
            }
            (python, _) => python.clone(),
        };
        let mut command = program.command(python.as_deref(), launch::has_own_group());
        command.envs(&variables).env("MUSTER_APP", &self.driver.name);
        Ok(command)
    }
}
