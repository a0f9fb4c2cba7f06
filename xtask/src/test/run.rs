//! One run of suites in order, with the build and the testbed before the first suite that needs them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::folder::RunFolder;
use super::harness;
use super::outcome::SuiteOutcome;
use super::programs::Programs;
use super::report::Report;
use super::suite::{Suite, SuiteKind};
use super::supervisor::TestbedSupervisor;
use crate::{deny, doc, layout, lint, testbed, words};

/// A prerequisite of several suites, which is created once.
enum Stage<T> {
    Ahead,
    Ready(T),
    Failed,
}

impl<T> Stage<T> {
    /// Creates the prerequisite at the first call, and adds a row for it.
    fn reach(&mut self, name: &str, report: &mut Report, make: impl FnOnce() -> Result<T>) -> Option<&T> {
        if let Self::Ahead = self {
            let started = Instant::now();
            let (stage, outcome) = match make() {
                Ok(made) => (Self::Ready(made), SuiteOutcome::default()),
                Err(error) => (Self::Failed, SuiteOutcome::failed(&error)),
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
pub(super) struct TestRun<'a> {
    filter: Option<&'a str>,
    /// The time limit of one test.
    limit: Duration,
    report: Report,
    programs: Stage<Programs>,
    supervisor: Stage<TestbedSupervisor>,
    // Dropped after the testbed, whose folder is in this one.
    folder: RunFolder,
}

impl<'a> TestRun<'a> {
    pub(super) fn new(filter: Option<&'a str>, limit: Duration) -> Result<Self> {
        let folder = RunFolder::make(&std::env::temp_dir()).context("cannot make a folder for this run")?;
        Ok(Self {
            filter,
            limit,
            report: Report::default(),
            programs: Stage::Ahead,
            supervisor: Stage::Ahead,
            folder,
        })
    }

    /// Runs one suite, unless a prerequisite has failed.
    pub(super) fn suite(&mut self, suite: &Suite) {
        if !self.prepare(suite) {
            self.report.leave_out(&suite.name);
            return;
        }
        eprintln!("\n── {} ──", suite.name);
        let started = Instant::now();
        let outcome = self.execute(suite).unwrap_or_else(|error| SuiteOutcome::failed(&error));
        // A program without tests that the filter selects has no row.
        if !outcome.is_empty() {
            self.report.add(&suite.name, started.elapsed(), outcome);
        }
    }

    fn prepare(&mut self, suite: &Suite) -> bool {
        let Self { report, programs, supervisor, folder, .. } = self;
        if !matches!(suite.kind, SuiteKind::Target { .. }) {
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
            TestbedSupervisor::start(&runner, inventory, folder)
        };
        supervisor.reach("testbed", report, start).is_some()
    }

    fn execute(&self, suite: &Suite) -> Result<SuiteOutcome> {
        match &suite.kind {
            SuiteKind::Fmt => lint::fmt().map(|()| SuiteOutcome::check()),
            SuiteKind::Words => words::check().map(|()| SuiteOutcome::check()),
            SuiteKind::Clippy => lint::clippy().map(|()| SuiteOutcome::check()),
            SuiteKind::Deny => deny::check().map(SuiteOutcome::check_with_note),
            SuiteKind::Docs => doc::build(false).map(|()| SuiteOutcome::check()),
            SuiteKind::Target { package, selector, folder } => {
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
            SuiteKind::DocTests => {
                let mut cargo = layout::cargo()?;
                cargo.args(["test", "--doc", "--locked", "--workspace", "--"]).args(self.filter);
                harness::run(&mut cargo, &self.folder, self.limit)
            }
        }
    }

    /// Stops the testbed, prints the summary, and returns true if all tests passed.
    pub(super) fn finish(mut self) -> bool {
        let started = Instant::now();
        if let Stage::Ready(supervisor) = self.supervisor
            && let Err(error) = supervisor.stop()
        {
            self.report.add("testbed's end", started.elapsed(), SuiteOutcome::failed(&error));
        }
        // Dropped before the summary, which is the last output.
        drop(self.folder);
        self.report.print(self.filter);
        self.report.passed()
    }
}
