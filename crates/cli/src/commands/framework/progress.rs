//! Progress and results of installations and upgrades.

use std::process::ExitCode;

use anyhow::Result;
use muster_proto::v1alpha2::{Framework, InstallFrameworkResponse, ListFrameworksResponse};
use tonic::{Response, Status, Streaming};

use crate::failure::{Exit, Failure, connection_lost};
use crate::format::{self, Format};
use crate::output::{self, Spinner, harmless};

/// Shows the progress of an installation until it ends. Returns the framework, and true if it was installed before.
pub(super) async fn follow(
    answers: impl Future<Output = Result<Response<Streaming<InstallFrameworkResponse>>, Status>>,
    name: &str,
    verb: &str,
) -> Result<(Framework, bool), Failure> {
    let spinner = Spinner::new(format!("{name}: {verb}"));
    tokio::select! {
        ended = read(answers, name, verb, &spinner) => ended,
        _ = tokio::signal::ctrl_c() => {
            let what = format!("interrupted: the {verb} of {name} is not complete");
            Err(Failure::new(Exit::Interrupted, what).hint("run it again: it starts from the beginning"))
        }
    }
}

async fn read(
    answers: impl Future<Output = Result<Response<Streaming<InstallFrameworkResponse>>, Status>>,
    name: &str,
    verb: &str,
    spinner: &Spinner,
) -> Result<(Framework, bool), Failure> {
    let broken = |status: Status| {
        let lost = connection_lost(&status);
        let failure = Failure::from(status);
        if lost { failure.hint(format!("run `muster framework {verb} {name}` again")) } else { failure }
    };
    let mut messages = answers.await.map_err(broken)?.into_inner();
    while let Some(message) = messages.message().await.map_err(broken)? {
        match message.framework {
            Some(framework) => return Ok((framework, message.already_there)),
            None => spinner.show(format!("{name}: {}", harmless(&message.progress))),
        }
    }
    Err(broken(Status::unknown("the server ended the call without a result")))
}

/// Prints the results for several frameworks: for people one line for each as soon as it is known, for programs all of
/// them at the end.
pub(super) struct FrameworkResults {
    format: Format,
    frameworks: Vec<Framework>,
    printed: ExitCode,
}

impl FrameworkResults {
    pub(super) const fn new(format: Format) -> Self {
        Self { format, frameworks: Vec::new(), printed: ExitCode::SUCCESS }
    }

    /// Adds a framework with its line for people.
    pub(super) fn add(&mut self, line: &str, framework: Framework) {
        if matches!(self.format, Format::Table | Format::Wide) {
            let printed = output::print(&format!("{line}\n"));
            if printed != ExitCode::SUCCESS {
                self.printed = printed;
            }
        }
        self.frameworks.push(framework);
    }

    pub(super) fn print(self) -> Result<ExitCode> {
        let Self { format, frameworks, printed } = self;
        if matches!(format, Format::Table | Format::Wide) {
            return Ok(printed);
        }
        let message = ListFrameworksResponse { frameworks };
        format::list(format, &message.frameworks, "frameworks", &message, "")
    }
}
