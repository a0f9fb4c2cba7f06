//! One run: its suites in order, and the build and the testbed before the first suite that needs them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::folder::Folder;
use super::harness;
use super::outcome::Outcome;
use super::programs::Programs;
use super::report::Report;
use super::suite::{Kind, Suite};
use super::supervisor::Supervisor;
use crate::{deny, doc, layout, lint, testbed, words};

/// A prerequisite of several suites, which is created once.
enum Stage<T> {
    Ahead,
    Ready(T),
    Failed,
}

impl<T> Stage<T> {
    /// Creates it, unless that was tried before, as a row of its own.
    fn reach(&mut self, name: &str, report: &mut Report, make: impl FnOnce() -> Result<T>) -> Option<&T> {
        if let Self::Ahead = self {
            let started = Instant::now();
            let (stage, outcome) = match make() {
                Ok(made) => (Self::Ready(made), Outcome::default()),
                Err(error) => (Self::Failed, Outcome::failed(&error)),
            };
            report.add(name, started.elapsed(), outcome);
            *self = stage;
        }
        match self {
            Self::Ready(made) => Some(made),
            Self::Ahead | Self::Failed => None,
        }
    }
}

/// The state of a run.
pub(super) struct Run<'a> {
    filter: Option<&'a str>,
    /// The time limit of one test.
    limit: Duration,
    report: Report,
    programs: Stage<Programs>,
    supervisor: Stage<Supervisor>,
    // After the testbed, which has its folder in it.
    folder: Folder,
}

impl<'a> Run<'a> {
    pub(super) fn new(filter: Option<&'a str>, limit: Duration) -> Result<Self> {
        let folder = Folder::make(&std::env::temp_dir()).context("cannot make a folder for this run")?;
        Ok(Self {
            filter,
            limit,
            report: Report::default(),
            programs: Stage::Ahead,
            supervisor: Stage::Ahead,
            folder,
        })
    }

    /// Runs one suite, unless what it needs could not be had.
    pub(super) fn suite(&mut self, suite: &Suite) {
        if !self.prepare(suite) {
            self.report.leave_out(&suite.name);
            return;
        }
        eprintln!("\n── {} ──", suite.name);
        let started = Instant::now();
        let outcome = self.execute(suite).unwrap_or_else(|error| Outcome::failed(&error));
        // A program without tests, or without one that the filter chooses, is no row.
        if !outcome.is_empty() {
            self.report.add(&suite.name, started.elapsed(), outcome);
        }
    }

    fn prepare(&mut self, suite: &Suite) -> bool {
        let Self { report, programs, supervisor, folder, .. } = self;
        if !matches!(suite.kind, Kind::Target { .. }) {
            return true;
        }
        let Some(programs) = programs.reach("build", report, Programs::build) else { return false };
        if !suite.needs_testbed {
            return true;
        }
        let start = || {
            let inventory = testbed::provide()?;
            if inventory.is_incomplete() {
                eprint!("{}", inventory.table());
            }
            let runner = programs.runner().context("cargo built no runner for the testbed")?;
            Supervisor::start(&runner, inventory, folder)
        };
        supervisor.reach("testbed", report, start).is_some()
    }

    fn execute(&self, suite: &Suite) -> Result<Outcome> {
        match &suite.kind {
            Kind::Fmt => lint::fmt().map(|()| Outcome::check()),
            Kind::Words => words::check().map(|()| Outcome::check()),
            Kind::Clippy => lint::clippy().map(|()| Outcome::check()),
            Kind::Deny => deny::check().map(Outcome::check_with_note),
            Kind::Docs => doc::build(false).map(|()| Outcome::check()),
            Kind::Target { package, selector, folder } => {
                let Stage::Ready(programs) = &self.programs else {
                    anyhow::bail!("the tests were not built");
                };
                let mut command = std::process::Command::new(programs.find(package, selector)?);
                command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
                command.env("CARGO_TARGET_DIR", layout::target()?);
                if let Stage::Ready(supervisor) = &self.supervisor {
                    command.env("MUSTER_TESTBED", supervisor.testbed());
                }
                harness::run(command.args(self.filter), &self.folder, self.limit)
            }
            Kind::DocTests => {
                let mut cargo = layout::cargo()?;
                cargo.args(["test", "--doc", "--locked", "--workspace", "--"]).args(self.filter);
                harness::run(&mut cargo, &self.folder, self.limit)
            }
        }
    }

    /// Stops the testbed, prints the summary, and returns whether all passed.
    pub(super) fn finish(mut self) -> bool {
        let started = Instant::now();
        if let Stage::Ready(supervisor) = self.supervisor
            && let Err(error) = supervisor.stop()
        {
            self.report.add("testbed's end", started.elapsed(), Outcome::failed(&error));
        }
        // Dropped before the summary, which is the last output.
        drop(self.folder);
        self.report.print(self.filter);
        self.report.passed()
    }
}
