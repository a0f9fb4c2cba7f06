//! `muster job logs`: prints the output of a job.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use muster_proto::v1alpha2::GetJobLogsRequest;
use tonic::Status;

use super::{JobFlags, get, is_ended};
use crate::connect::Client;
use crate::failure::{Failure, is_retryable};
use crate::output::{self, message};

/// The time-out of the record of a job's end after the end of its log.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Print the output of a job
#[derive(Debug, Parser)]
pub(super) struct Logs {
    #[command(flatten)]
    job: JobFlags,
    /// Keep printing until the job has ended, also after a restart of the server
    #[arg(short = 'f', long)]
    follow: bool,
    /// Print only this many of the last lines
    #[arg(long, value_name = "N", value_parser = crate::commands::parse_count)]
    tail: Option<i32>,
}

impl Logs {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { job: JobFlags { job, namespace, server }, follow, tail } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let request = GetJobLogsRequest { name: job, namespace, follow, tail };
            Ok(print(&mut client, request).await?)
        })
    }
}

/// Prints a log until it ends or the output is closed. With `follow` it ends with the job: after a lost connection it
/// continues at the next server.
pub(super) async fn print(client: &mut Client, mut request: GetJobLogsRequest) -> Result<ExitCode, Failure> {
    let mut log = PrintedLog::default();
    loop {
        let outcome = log.print(client, &request).await.map_err(|failure| {
            // A job that was not found does not continue.
            if log.is_found { failure.hint(follow_hint(&request.name)) } else { failure }
        });
        match outcome? {
            PrintOutcome::OutputClosed => return Ok(ExitCode::FAILURE),
            PrintOutcome::All if !request.follow => return Ok(ExitCode::SUCCESS),
            PrintOutcome::All => {
                // The end of a job is recorded shortly after that of its log.
                let job = get(client, &request.namespace, &request.name, END_TIMEOUT).await?;
                if is_ended(&job) {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            PrintOutcome::Interrupted(status) => client.reconnect(&status, |text| message!("{text}")).await?,
        }
        if request.tail.is_some_and(|lines| lines > 0) {
            message!(
                "warning: lines of the time without a connection may be missing: `muster job logs {}` prints all",
                request.name
            );
            request.tail = Some(0);
        }
    }
}

/// The reason why the printing of a log ended.
enum PrintOutcome {
    /// The log ended.
    All,
    /// No program reads the output.
    OutputClosed,
    /// The server is stopping, or the connection was lost.
    Interrupted(Status),
}

/// Returns the hint of a command that no longer follows a job.
pub(super) fn follow_hint(job: &str) -> String {
    format!("the job continues: `muster job logs {job} -f` follows it, `muster job stop {job}` stops it")
}

/// The part of a log that has been printed.
#[derive(Debug, Default)]
struct PrintedLog {
    bytes: usize,
    /// True once a server has found the job.
    is_found: bool,
}

impl PrintedLog {
    /// Prints a log without the bytes that were printed before. With `tail` the log starts later, and all of it is printed.
    async fn print(
        &mut self,
        client: &mut Client,
        request: &GetJobLogsRequest,
    ) -> Result<PrintOutcome, Failure> {
        let call = async |client: &Client| client.jobs().get_job_logs(request.clone()).await;
        let mut log = client.retry(call).await?.into_inner();
        self.is_found = true;
        let mut skipped = if request.tail.is_some() { 0 } else { self.bytes };
        loop {
            match log.message().await {
                Ok(Some(chunk)) => {
                    let text = skip_bytes(&chunk.text, &mut skipped);
                    self.bytes += text.len();
                    if !text.is_empty() && output::print(text) != ExitCode::SUCCESS {
                        return Ok(PrintOutcome::OutputClosed);
                    }
                }
                Ok(None) => return Ok(PrintOutcome::All),
                Err(status) if request.follow && is_retryable(&status) => {
                    return Ok(PrintOutcome::Interrupted(status));
                }
                Err(status) => return Err(status.into()),
            }
        }
    }
}

/// Removes up to this many bytes from the beginning of a text, and subtracts them from the number.
fn skip_bytes<'t>(text: &'t str, skipped: &mut usize) -> &'t str {
    let here = text.len().min(*skipped);
    *skipped -= here;
    text.get(here..).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing(0, &["a\n", "b\n"], "a\nb\n")]
    #[case::a_part_of_a_chunk(2, &["a\nb\n", "c\n"], "b\nc\n")]
    #[case::more_than_a_chunk(4, &["a\nb\n", "c\n"], "c\n")]
    #[case::more_than_there_is(9, &["a\n"], "")]
    fn printed_bytes_are_not_printed_again(
        #[case] mut printed: usize,
        #[case] chunks: &[&str],
        #[case] expected: &str,
    ) {
        let text: String = chunks.iter().map(|chunk| skip_bytes(chunk, &mut printed)).collect();
        assert_eq!(text, expected);
    }
}
