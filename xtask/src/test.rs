//! `cargo xtask test [FILTER]`: every check and every test, with how long each suite took.

mod outcome;
mod programs;
mod suite;
mod supervisor;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Parser;

use outcome::{Outcome, Report};
use programs::Programs;
use suite::{Kind, Suite};
use supervisor::Supervisor;

use crate::{deny, doc, layout, lint, testbed};

#[derive(Debug, Parser)]
pub(crate) struct Test {
    /// Only tests whose name contains this (checks of style are then left out)
    filter: Option<String>,
    /// Only this suite, or all suites of this crate; may be given several times
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// List the suites
    #[arg(long)]
    list: bool,
}

impl Test {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { filter, suites: wanted, list } = self;
        let known = suite::all()?;
        if list {
            for suite in &known {
                println!("{}", suite.name);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let chosen = choose(known, &wanted, filter.as_deref())?;
        let supervisor = Supervisor::start(chosen.iter().any(|suite| suite.needs_testbed))?;
        let (mut report, programs) = (Report::default(), Programs::default());
        for suite in chosen {
            eprintln!("\n── {} ──", suite.name);
            let started = Instant::now();
            let outcome = run(&suite, filter.as_deref(), &supervisor, &programs);
            let outcome = outcome.unwrap_or_else(|error| Outcome::failed(&error));
            report.add(suite.name, started.elapsed(), outcome);
        }
        let skips = supervisor.stop()?;
        report.print(&skips);
        // With CI=true each skip has failed its own test already, and so has a part that could not be built.
        Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The suites that were asked for; a name that is none is an error, not an empty success.
fn choose(known: Vec<Suite>, wanted: &[String], filter: Option<&str>) -> Result<Vec<Suite>> {
    for name in wanted {
        if !known.iter().any(|suite| suite.is_named(name)) {
            let names: Vec<&str> = known.iter().map(|suite| suite.name.as_str()).collect();
            bail!("there is no suite '{name}'; there are: {}", names.join(", "));
        }
    }
    let asked = |suite: &Suite| wanted.is_empty() || wanted.iter().any(|name| suite.is_named(name));
    let fits = |suite: &Suite| filter.is_none() || suite.has_tests();
    Ok(known.into_iter().filter(|suite| asked(suite) && fits(suite)).collect())
}

fn run(suite: &Suite, filter: Option<&str>, supervisor: &Supervisor, programs: &Programs) -> Result<Outcome> {
    match &suite.kind {
        Kind::Fmt => lint::fmt().map(|()| Outcome::check()),
        Kind::Clippy => lint::clippy().map(|()| Outcome::check()),
        Kind::Deny => deny::check().map(Outcome::check_with_note),
        Kind::Docs => doc::build(false).map(|()| Outcome::check()),
        Kind::Target { package, selector, folder } => {
            supervisor.run(&programs.find(package, selector)?, folder, filter)
        }
        Kind::DocTests => {
            let mut cargo = layout::cargo()?;
            cargo.args(["test", "--doc", "--locked", "--workspace", "--"]).args(filter);
            outcome::of_tests(&mut cargo)
        }
    }
}

impl Supervisor {
    /// Provides what the tests need, if any of them needs it.
    fn start(needed: bool) -> Result<Self> {
        if !needed {
            return Self::without_testbed();
        }
        let inventory = testbed::provide()?;
        if !inventory.missing.is_empty() {
            eprint!("{}", inventory.table());
        }
        Self::with_testbed(&testbed::runner()?, &testbed::Inventory::path()?)
    }
}
