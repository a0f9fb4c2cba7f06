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

/// The number of printed bytes by which the place in a log is found again.
const KEPT: usize = 64 << 10;

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
    let mut skipped = 0;
    loop {
        let outcome = log.print(client, &request, skipped).await.map_err(|failure| {
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
        if !log.end.is_empty() {
            request.tail = None;
            skipped = log.find_end(&read_all(client, &request).await?).unwrap_or_else(|| {
                message!("warning: lines are missing or repeated here: the log was discarded meanwhile");
                0
            });
        }
    }
}

/// Reads a log up to its present end.
async fn read_all(client: &mut Client, request: &GetJobLogsRequest) -> Result<String, Failure> {
    let request = GetJobLogsRequest { follow: false, ..request.clone() };
    loop {
        let call = async |client: &Client| client.jobs().get_job_logs(request.clone()).await;
        let (mut log, mut text) = (client.retry(call).await?.into_inner(), String::new());
        loop {
            match log.message().await {
                Ok(Some(chunk)) => text.push_str(&chunk.text),
                Ok(None) => return Ok(text),
                Err(status) if is_retryable(&status) => {
                    client.reconnect(&status, |text| message!("{text}")).await?;
                    break;
                }
                Err(status) => return Err(status.into()),
            }
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
    /// The last lines of it.
    end: String,
    /// True once a server has found the job.
    is_found: bool,
}

impl PrintedLog {
    /// Prints a log without its first bytes.
    async fn print(
        &mut self,
        client: &mut Client,
        request: &GetJobLogsRequest,
        mut skipped: usize,
    ) -> Result<PrintOutcome, Failure> {
        let call = async |client: &Client| client.jobs().get_job_logs(request.clone()).await;
        let mut log = client.retry(call).await?.into_inner();
        self.is_found = true;
        loop {
            match log.message().await {
                Ok(Some(chunk)) => {
                    let text = skip_bytes(&chunk.text, &mut skipped);
                    self.record(text);
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

    fn record(&mut self, text: &str) {
        self.bytes += text.len();
        self.end.push_str(text);
        if self.end.len() > 2 * KEPT {
            let from = self.end.ceil_char_boundary(self.end.len() - KEPT);
            self.end.drain(..from);
        }
    }

    /// Finds the end of the printed part in a log. Its place changes when the oldest files of the log are removed, and
    /// is not known if the printing began with the last lines. Of several places the first one is returned: lines are
    /// rather repeated than left out.
    fn find_end(&self, log: &str) -> Option<usize> {
        if log.get(..self.bytes).is_some_and(|printed| printed.ends_with(&self.end)) {
            return Some(self.bytes);
        }
        let begins = self.end.match_indices('\n').map(|(end, _)| end + 1).filter(|at| *at < self.end.len());
        log.find(&self.end).map(|at| at + self.end.len()).or_else(|| {
            // A part of the last lines was removed, too.
            let mut lasts = begins.map(|at| &self.end[at..]);
            lasts.find(|last| log.starts_with(last)).map(str::len)
        })
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
    #[case::nothing_was_removed(&["1\n2\n"], "1\n2\n3\n", Some(4))]
    #[case::alike_lines(&["x\n", "x\n"], "x\nx\nx\n", Some(4))]
    #[case::the_beginning_was_removed(&["1\n2\n", "3\n"], "2\n3\n4\n", Some(4))]
    #[case::it_began_with_the_last_lines(&["3\n"], "1\n2\n3\n4\n", Some(6))]
    #[case::all_was_removed(&["1\n"], "2\n", None)]
    fn the_end_of_the_printed_part_is_found_again(
        #[case] printed: &[&str],
        #[case] log: &str,
        #[case] expected: Option<usize>,
    ) {
        let mut part = PrintedLog::default();
        for text in printed {
            part.record(text);
        }
        assert_eq!(part.find_end(log), expected);
    }

    #[test]
    fn a_printed_part_is_found_in_a_log_whose_oldest_lines_were_removed() {
        let mut part = PrintedLog::default();
        let lines = (0..50_000).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
        part.record(&lines);
        assert!(part.end.len() <= 2 * KEPT, "only the end is kept");
        let cut = lines.find("line 20000\n").unwrap();
        let log = format!("{}late\n", &lines[cut..]);
        assert_eq!(&log[part.find_end(&log).unwrap()..], "late\n");
    }

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
