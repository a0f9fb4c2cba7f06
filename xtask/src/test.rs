//! `cargo xtask test [FILTER]`: runs every check and every test, and prints the duration of each suite.

pub(crate) mod folder;
mod harness;
mod outcome;
mod processes;
mod programs;
mod reader;
mod report;
mod run;
mod suite;
pub(crate) mod supervisor;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;

use run::TestRun;
use suite::Suite;

#[derive(Debug, Parser)]
pub(crate) struct Test {
    /// Only tests whose name contains this (checks of style are then left out)
    filter: Option<String>,
    /// Only this suite, or all suites of this crate; may be given several times
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Seconds that one test may run before its suite is ended; at least 60
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(60..))]
    time_limit: u64,
    /// List the suites
    #[arg(long)]
    list: bool,
}

impl Test {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Self { filter, suites: wanted, time_limit, list } = self;
        let known = suite::all()?;
        if list {
            for suite in &known {
                println!("{}", suite.name);
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut run = TestRun::new(filter.as_deref(), Duration::from_secs(time_limit))?;
        for suite in choose(known, &wanted, filter.as_deref())? {
            run.suite(&suite);
        }
        // With CI=true each skip has failed its own test already, and so has a part that could not be built.
        Ok(if run.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The requested suites; an unknown name is an error, not an empty success.
fn choose(known: Vec<Suite>, wanted: &[String], filter: Option<&str>) -> Result<Vec<Suite>> {
    for name in wanted {
        let named: Vec<&Suite> = known.iter().filter(|suite| suite.is_named(name)).collect();
        if named.is_empty() {
            let names: Vec<&str> = known.iter().map(|suite| suite.name.as_str()).collect();
            bail!("there is no suite '{name}'; there are: {}", names.join(", "));
        }
        if let Some(filter) = filter
            && !named.iter().any(|suite| suite.has_tests())
        {
            bail!(
                "the suite '{name}' has no tests of which '{filter}' could choose some: leave out one of them"
            );
        }
    }
    let asked = |suite: &Suite| wanted.is_empty() || wanted.iter().any(|name| suite.is_named(name));
    let fits = |suite: &Suite| filter.is_none() || suite.has_tests();
    Ok(known.into_iter().filter(|suite| asked(suite) && fits(suite)).collect())
}

#[cfg(test)]
mod tests {
    use super::suite::SuiteKind;
    use super::*;

    fn known() -> Vec<Suite> {
        vec![Suite::check("fmt", SuiteKind::Fmt), Suite::check("doc-tests", SuiteKind::DocTests)]
    }

    fn refusal(wanted: &str, filter: Option<&str>) -> String {
        choose(known(), &[wanted.to_owned()], filter).unwrap_err().to_string()
    }

    #[test]
    fn a_filter_chooses_among_suites_with_tests() {
        let chosen = choose(known(), &[], Some("watch")).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].name, "doc-tests");
        assert_eq!(choose(known(), &[], None).unwrap().len(), 2);
    }

    #[test]
    fn a_suite_that_is_none_or_has_nothing_to_filter_is_refused() {
        assert_eq!(refusal("moon", None), "there is no suite 'moon'; there are: fmt, doc-tests");
        let sentence =
            "the suite 'fmt' has no tests of which 'watch' could choose some: leave out one of them";
        assert_eq!(refusal("fmt", Some("watch")), sentence);
    }
}
