//! The program helm, for tests of the chart.

use std::process::Command;

use crate::shared;
use crate::wire::ProgramParts;

/// A command that runs helm, or `None` if the test is skipped.
pub async fn helm() -> Option<Command> {
    let ProgramParts { program } = shared::obtain("program/helm").await?;
    Some(Command::new(program))
}
