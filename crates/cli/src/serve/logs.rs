//! The log: to standard error, as text or JSON.

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;

use super::settings::{LogFormat, Settings};

pub(super) fn start(settings: &Settings) -> Result<()> {
    let filter = EnvFilter::try_new(&settings.log).with_context(|| {
        format!("log is '{}': a level or a filter such as info,muster_engine=debug is expected", settings.log)
    })?;
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
