//! `muster job submit`: runs a command on a cluster, or on one that is created for it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::{CreateClusterRequest, GetJobLogsRequest, Job, SubmitJobRequest};

use super::{conclude, ended, follow};
use crate::commands::create::Spec;
use crate::commands::{AmongFlags, NamespaceFlag, find};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, Format, FormatFlag};
use crate::output::{self, message};
use crate::table;
use crate::wait::Deadline;

/// Submit a job: muster job submit NAME -- COMMAND, or with --framework on a cluster that is created for it
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster job submit fred -- python train.py\n  muster job submit fred --follow -- train.py\n  muster job submit --framework ray --workers 4 --follow -- python train.py"
)]
pub(super) struct Submit {
    /// The cluster to use; without one, a cluster is created for the job and deleted when the job ends
    #[arg(value_name = "NAME", add = crate::complete::clusters())]
    cluster: Option<String>,
    /// Name of the job [default: a generated name]
    #[arg(long = "name", value_name = "JOB")]
    job: Option<String>,
    #[command(flatten)]
    spec: Spec,
    /// Print what the command writes until it has ended, and end with its exit status
    #[arg(short = 'f', long)]
    follow: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
    /// The command and its arguments, or a Python file, which runs in the cluster's Python
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Submit {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, job, mut spec, follow, namespace, format, server, command } = self;
            spec.check()?;
            match (&cluster, spec.first_of_new_cluster()) {
                (Some(cluster), Some(flag)) => {
                    let what = format!("{flag} is for new clusters, but '{cluster}' names an existing one");
                    return Err(Failure::new(Exit::Usage, what).hint(format!("leave out {flag}")).into());
                }
                (None, None) => {
                    let what = "no cluster is given";
                    let hint = "name a cluster, or create one for the job with --framework";
                    return Err(Failure::new(Exit::Usage, what).hint(hint).into());
                }
                _ => {}
            }
            let mut client = server.connect().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let provider = match &cluster {
                Some(name) => find(&mut client, &namespace, name, &AmongFlags::default()).await?.provider,
                None => spec.provider().to_owned(),
            };
            let (working_dir, envs) = spec.code(&client, &provider)?;
            let new_cluster = match &cluster {
                Some(_) => None,
                None => {
                    spec.resolve(&mut client, &namespace, Deadline::none()).await?;
                    let namespace = namespace.clone();
                    Some(CreateClusterRequest { namespace, ..spec.request(String::new(), None) })
                }
            };
            let job = Job {
                name: job.unwrap_or_default(),
                cluster: cluster.unwrap_or_default(),
                command,
                working_dir,
                envs,
                ..Job::default()
            };
            let request = SubmitJobRequest { job: Some(job), namespace: namespace.clone(), new_cluster };
            // The request is not retried without an answer: the job may run already.
            let job = Box::pin(client.jobs().submit_job(request)).await.map_err(Failure::from)?.into_inner();
            if follow {
                return tokio::select! {
                    ended = follow_to_end(&mut client, &namespace, &job) => ended,
                    _ = tokio::signal::ctrl_c() => Err(interrupted(&job).into()),
                };
            }
            print_submitted(&format, &job)
        })
    }
}

async fn follow_to_end(client: &mut Client, namespace: &str, job: &Job) -> Result<ExitCode> {
    message!("job '{}' submitted on cluster '{}'", job.name, job.cluster);
    let request =
        GetJobLogsRequest { name: job.id.clone(), namespace: namespace.to_owned(), follow: true, tail: None };
    if let Err(failure) = follow::print(client, request).await {
        message!("warning: {failure}");
    }
    Ok(conclude(&ended(client, namespace, &job.id, None).await?))
}

fn interrupted(job: &Job) -> Failure {
    Failure::new(Exit::Interrupted, format!("stopped following job '{}'", job.name))
        .hint(follow::follow_hint(&job.name))
}

/// Prints the name on standard output for scripts, and what to do next on standard error.
fn print_submitted(format: &FormatFlag, job: &Job) -> Result<ExitCode> {
    if format.format == Format::Table {
        message!(
            "job '{}' submitted on cluster '{}': follow it with `muster job logs {0} -f`",
            job.name,
            job.cluster
        );
        return Ok(output::print(&format!("{}\n", job.name)));
    }
    format::one(format.format, job, |wide| table::render(std::slice::from_ref(job), wide))
}
