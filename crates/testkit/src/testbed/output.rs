//! The output of the testbed.

use std::io::Write as _;

/// Writes a line to standard error. A write error is ignored: the reader may be gone, which must not stop the clean-up.
macro_rules! say {
    ($($words:tt)*) => { $crate::testbed::output::write_to_stderr(format_args!($($words)*)) };
}
pub(super) use say;

pub(super) fn write_to_stderr(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Writes a line to standard output, for shells and programs to read.
pub(super) fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}
