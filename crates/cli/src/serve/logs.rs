//! The server's log on standard error, as text or JSON.

use std::io::{self, IsTerminal as _, Write};

use anyhow::{Context as _, Result, ensure};
use tracing_subscriber::EnvFilter;

use super::settings::{LogFormat, ServerSettings};

pub(super) fn start(settings: &ServerSettings) -> Result<()> {
    let expected =
        || format!("log is '{}': must be a level or a filter such as info,muster_engine=debug", settings.log);
    ensure!(settings.log.split(',').all(ends_in_a_level), expected());
    let filter = EnvFilter::try_new(directives(&settings.log)).with_context(expected)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // Reporting a failed write on standard error would panic if standard error itself is full.
        .log_internal_errors(false);
    match settings.log_format {
        LogFormat::Text => {
            let builder = builder.with_ansi(io::stderr().is_terminal());
            builder.with_writer(|| OneLine(io::stderr())).try_init()
        }
        LogFormat::Json => builder.json().try_init(),
    }
    .map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

/// Writes each event as one line: some contain output of workloads, which must not look like lines of this log.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Each call has one whole event with a newline at its end.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        if text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            let text = String::from_utf8_lossy(text).replace('\n', "\\n").replace('\r', "\\r");
            self.0.write_all(format!("{text}\n").as_bytes())?;
        } else {
            self.0.write_all(event)?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the directives of the log. The library of watches warns at every attempt of a watch that the server's account
/// may not start; Muster itself reports that once. Directives of the administrator take precedence.
fn directives(log: &str) -> String {
    format!("kube_runtime=error,{log}")
}

/// Returns true if a directive ends with a level. A misspelt one would count as a module name, and the log stay empty.
fn ends_in_a_level(directive: &str) -> bool {
    let level = directive.rsplit('=').next().unwrap_or_default().trim();
    ["off", "error", "warn", "info", "debug", "trace"].iter().any(|known| level.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let mut written = Vec::new();
        OneLine(&mut written).write_all(b"WARN its last line: a\nERROR forged\r\n").unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "WARN its last line: a\\nERROR forged\\r\n");
    }

    #[rstest]
    #[case("info", "kube_runtime=error,info")]
    #[case("warn,kube_runtime=debug", "kube_runtime=debug,warn")]
    fn watches_without_a_right_do_not_fill_the_log(#[case] log: &str, #[case] filter: &str) {
        assert_eq!(EnvFilter::try_new(directives(log)).unwrap().to_string(), filter);
    }

    #[rstest]
    #[case("info", true)]
    #[case("INFO", true)]
    #[case("muster_engine=debug", true)]
    #[case("inof", false)]
    #[case("bogus=", false)]
    #[case("", false)]
    fn a_filter_ends_with_a_level(#[case] directive: &str, #[case] good: bool) {
        assert_eq!(ends_in_a_level(directive), good);
    }
}
