//! `muster job`: runs commands on a cluster that outlive this process and restarts of the server.

mod follow;
mod submit;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_proto::v1alpha2::{
    GetJobRequest, Job, ListAllJobsRequest, ListJobsRequest, ListJobsResponse, StopJobRequest,
};
use muster_proto::wkt;
use tokio::time::Instant;

use super::{NamespaceFlag, PAGE, pages};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, Format, FormatFlag};
use crate::output::{self, message};
use crate::table::{self, JobWithNamespace};
use crate::wait::{Deadline, parse_duration};

/// Time for which one request waits for the end of a job before it is repeated.
const WAIT_PER_REQUEST: Duration = Duration::from_secs(30);

/// The time that the last request of a limited wait has for its answer.
const ANSWER_MARGIN: Duration = Duration::from_secs(2);

/// Run commands on a cluster that outlive this terminal: submit, list, show, logs, wait, stop
#[derive(Debug, Parser)]
pub(crate) struct JobCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Submit(Box<submit::Submit>),
    List(List),
    Show(Show),
    Logs(follow::Logs),
    Wait(Wait),
    Stop(Stop),
}

/// Name of a job, with the flags that find it.
#[derive(Debug, Parser)]
struct JobFlags {
    /// The job: its name, its id, or the beginning of its id
    #[arg(add = crate::complete::jobs())]
    job: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// List jobs, newest first
#[derive(Debug, Parser)]
struct List {
    /// List only jobs of this cluster
    #[arg(long, value_name = "NAME", add = crate::complete::clusters())]
    cluster: Option<String>,
    /// List only jobs that have not ended
    #[arg(long)]
    open: bool,
    /// List the jobs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Show a job: its state and reason, its exit status and its last lines
#[derive(Debug, Parser)]
struct Show {
    #[command(flatten)]
    job: JobFlags,
    #[command(flatten)]
    format: FormatFlag,
}

/// Wait until a job has ended, and exit with its status
#[derive(Debug, Parser)]
struct Wait {
    #[command(flatten)]
    job: JobFlags,
    /// Wait at most this long, such as 30s, 5m or 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Stop a job: its command gets SIGTERM, and SIGKILL after 10 s
#[derive(Debug, Parser)]
struct Stop {
    #[command(flatten)]
    job: JobFlags,
    /// Do not wait until it has ended
    #[arg(long)]
    no_wait: bool,
}

impl JobCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::Submit(submit) => submit.run(),
            Command::List(list) => list.run(),
            Command::Show(show) => show.run(),
            Command::Logs(logs) => logs.run(),
            Command::Wait(wait) => wait.run(),
            Command::Stop(stop) => stop.run(),
        }
    }
}

fn is_ended(job: &Job) -> bool {
    matches!(job.state.as_str(), "SUCCEEDED" | "FAILED" | "STOPPED")
}

/// Fetches a job once it has ended, or after this time.
async fn get(client: &mut Client, namespace: &str, name: &str, wait: Duration) -> Result<Job, Failure> {
    let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
    let request = GetJobRequest {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        wait_timeout: (!wait.is_zero()).then_some(wkt::Duration { seconds, nanos: 0 }),
    };
    Ok(client.retry(async |client| client.jobs().get_job(request.clone()).await).await?.into_inner())
}

/// Waits until a job has ended, through restarts of the server.
async fn ended(
    client: &mut Client,
    namespace: &str,
    name: &str,
    timeout: Option<Duration>,
) -> Result<Job, Failure> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = left.map_or(WAIT_PER_REQUEST, |left| left.min(WAIT_PER_REQUEST));
        // Requests wait for whole seconds.
        let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
        let job = get(client, namespace, name, wait).await?;
        if is_ended(&job) {
            return Ok(job);
        }
        if left.is_some_and(|left| left <= WAIT_PER_REQUEST) {
            let what = format!("job '{}' is still {}: {}", job.name, job.state, job.status_reason);
            return Err(Failure::new(Exit::TimedOut, what).hint(follow::follow_hint(&job.name)));
        }
    }
}

/// Returns the exit status of a job's command; never 0 unless the job succeeded.
fn exit_code(job: &Job) -> ExitCode {
    if job.state == "SUCCEEDED" {
        return ExitCode::SUCCESS;
    }
    let code = job.exit_code.and_then(|code| u8::try_from(code).ok());
    code.filter(|code| *code != 0).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Prints how a job ended and returns its exit code.
fn conclude(job: &Job) -> ExitCode {
    message!("job '{}' {}: {}", job.name, job.state, job.status_reason);
    exit_code(job)
}

/// Lists jobs of a namespace, or of all namespaces, newest first.
async fn list(
    client: &mut Client,
    namespace: Option<&str>,
    cluster: &str,
    open: bool,
) -> Result<Vec<Job>, Failure> {
    let cluster = cluster.to_owned();
    let page = async |page_token: String| {
        let Some(namespace) = namespace else {
            let request = ListAllJobsRequest {
                cluster: cluster.clone(),
                open,
                page_size: PAGE,
                page_token,
                ..ListAllJobsRequest::default()
            };
            let list = async |client: &Client| client.jobs().list_all_jobs(request.clone()).await;
            let answer = client.retry(list).await?.into_inner();
            return Ok((answer.jobs, answer.next_page_token));
        };
        let request = ListJobsRequest {
            namespace: namespace.to_owned(),
            cluster: cluster.clone(),
            open,
            page_size: PAGE,
            page_token,
            ..ListJobsRequest::default()
        };
        let list = async |client: &Client| client.jobs().list_jobs(request.clone()).await;
        let answer = client.retry(list).await?.into_inner();
        Ok((answer.jobs, answer.next_page_token))
    };
    pages(page).await
}

impl List {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, open, all_namespaces, namespace, format, server } = self;
            let mut client = server.connect_to_existing().await?;
            let cluster = cluster.unwrap_or_default();
            let namespace = namespace.resolve(&mut client).await?;
            let within = (!all_namespaces).then_some(namespace.as_str());
            let jobs = list(&mut client, within, &cluster, open).await?;
            let all = ListJobsResponse { jobs: jobs.clone(), ..ListJobsResponse::default() };
            let nothing = "no jobs: submit one with `muster job submit NAME -- COMMAND`";
            if all_namespaces {
                if format.format == Format::Name {
                    // Jobs of several namespaces may have one name.
                    let name = |job: &Job| format!("{}/{}\n", job.namespace, job.name);
                    return Ok(output::print(&jobs.iter().map(name).collect::<String>()));
                }
                let lines: Vec<JobWithNamespace> = jobs.into_iter().map(JobWithNamespace).collect();
                return format::list(format.format, &lines, "jobs", &all, nothing);
            }
            format::list(format.format, &jobs, "jobs", &all, nothing)
        })
    }
}

impl Show {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { job: JobFlags { job, namespace, server }, format } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let job = get(&mut client, &namespace, &job, Duration::ZERO).await?;
            format::one(format.format, &job, |wide| text(&job, wide))
        })
    }
}

/// Renders a job for people: its line, details, and last lines.
fn text(job: &Job, wide: bool) -> String {
    let mut text = table::render(std::slice::from_ref(job), wide);
    let pairs = [
        ("reason", job.status_reason.clone()),
        ("command", job.command.join(" ")),
        ("working directory", job.working_dir.clone()),
        ("id", job.id.clone()),
    ];
    let given: Vec<(&str, String)> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    text.push('\n');
    text.push_str(&table::pairs(&given));
    if !job.last_lines.is_empty() {
        text.push_str("\nlast lines:\n");
        for line in job.last_lines.lines() {
            text.push_str("  ");
            text.push_str(&output::harmless(line));
            text.push('\n');
        }
    }
    text
}

impl Wait {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { job: JobFlags { job, namespace, server }, timeout } = self;
            // The request ends by itself at the end of the time limit, unless the server hangs.
            let limit = timeout.map_or(Deadline::none(), |timeout| Deadline::after(timeout + ANSWER_MARGIN));
            let job = limit.limit(async {
                let mut client = server.connect_to_existing().await?;
                let namespace = namespace.resolve(&mut client).await?;
                Ok(ended(&mut client, &namespace, &job, timeout).await?)
            });
            Ok(conclude(&Box::pin(job).await?))
        })
    }
}

impl Stop {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { job: JobFlags { job, namespace, server }, no_wait } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let request = StopJobRequest { name: job, namespace: namespace.clone() };
            // The request is retried without an answer, since stopping a job twice has the same effect as stopping it
            // once.
            let call = async |client: &Client| client.jobs().stop_job(request.clone()).await;
            let mut job = client.retry(call).await?.into_inner();
            if !no_wait && !is_ended(&job) {
                job = ended(&mut client, &namespace, &job.id, None).await?;
            }
            if is_ended(&job) {
                message!("job '{}' {}: {}", job.name, job.state, job.status_reason);
            } else {
                message!("job '{}' is being stopped", job.name);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("SUCCEEDED", Some(0), 0)]
    #[case("FAILED", Some(7), 7)]
    #[case::ended_by_a_signal("STOPPED", Some(143), 143)]
    #[case::its_end_is_unknown("FAILED", None, 1)]
    #[case::it_ended_well_when_it_was_stopped("STOPPED", Some(0), 1)]
    fn a_wait_exits_with_the_status_of_the_job(
        #[case] state: &str,
        #[case] code: Option<i32>,
        #[case] expected: u8,
    ) {
        let job = Job { state: state.to_owned(), exit_code: code, ..Job::default() };
        assert_eq!(format!("{:?}", exit_code(&job)), format!("{:?}", ExitCode::from(expected)));
    }
}
