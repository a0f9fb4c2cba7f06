//! The log: to standard error, as text or JSON.

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result, ensure};
use tracing_subscriber::EnvFilter;

use super::settings::{LogFormat, Settings};

pub(super) fn start(settings: &Settings) -> Result<()> {
    let expected = || {
        format!("log is '{}': a level or a filter such as info,muster_engine=debug is expected", settings.log)
    };
    ensure!(settings.log.split(',').all(ends_in_a_level), expected());
    let filter = EnvFilter::try_new(&settings.log).with_context(expected)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written would be told on standard error, and where that is what is full, by a panic.
        .log_internal_errors(false);
    match settings.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

/// A misspelt level would be taken for the name of a module, and the log would stay empty.
fn ends_in_a_level(directive: &str) -> bool {
    let level = directive.rsplit('=').next().unwrap_or_default().trim();
    ["off", "error", "warn", "info", "debug", "trace"].iter().any(|known| level.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("info", true)]
    #[case("INFO", true)]
    #[case("muster_engine=debug", true)]
    #[case("inof", false)]
    #[case("bogus=", false)]
    #[case("", false)]
    fn a_filter_says_a_level(#[case] directive: &str, #[case] good: bool) {
        assert_eq!(ends_in_a_level(directive), good);
    }
}
