//! Programs that a framework needs beside its package.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use muster_core::cluster::Framework;
use muster_frameworks::{LocalFramework, Program, Requirement};
use tokio::process::Command;

use super::Environments;

/// A slow disk may need seconds for the first start of such a program.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a framework needs is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{framework} needs {name} {least} or newer, and {looked}: {remedy}")]
pub struct Unmet {
    framework: Framework,
    name: &'static str,
    least: u32,
    looked: String,
    remedy: &'static str,
}

impl Environments {
    /// What nodes and clients of a framework need in their environment to find what it needs beside its package.
    pub async fn require(
        &self,
        framework: &dyn LocalFramework,
    ) -> Result<Option<(&'static str, PathBuf)>, Unmet> {
        let Some(requirement) = framework.requirement() else { return Ok(None) };
        let known = self.inner.programs.lock().get(requirement.program).cloned();
        let known = known.filter(|known| program(&requirement, &known.home).exists());
        let found = match known {
            Some(known) => known,
            None => {
                let variable = std::env::var_os;
                let places = places(&requirement, variable(requirement.variable), variable("PATH"));
                let found = first(framework.framework(), &requirement, places).await?;
                self.inner.programs.lock().insert(requirement.program, found.clone());
                found
            }
        };
        Ok(Some((requirement.variable, found.home)))
    }
}

fn program(requirement: &Requirement, home: &Path) -> PathBuf {
    home.join("bin").join(requirement.program)
}

/// Where the program may be: where its variable says, then as a shell would find it.
fn places(requirement: &Requirement, home: Option<OsString>, path: Option<OsString>) -> Vec<PathBuf> {
    let home = home.filter(|home| !home.is_empty()).map(|home| program(requirement, Path::new(&home)));
    let path = path.unwrap_or_default();
    let folders = std::env::split_paths(&path).map(|folder| folder.join(requirement.program));
    home.into_iter().chain(folders.filter(|file| file.exists())).collect()
}

/// The first that is new enough.
async fn first(
    framework: Framework,
    requirement: &Requirement,
    places: Vec<PathBuf>,
) -> Result<Program, Unmet> {
    let mut looked = Vec::new();
    for place in places {
        match ask(requirement, &place).await {
            Ok(found) if found.version >= requirement.least => return Ok(found),
            Ok(found) => looked.push(format!("{} is version {}", place.display(), found.version)),
            Err(why) => looked.push(format!("{} {why}", place.display())),
        }
    }
    let Requirement { name, program, variable, least, remedy, .. } = *requirement;
    let looked = match looked.as_slice() {
        [] => format!("there is no {program} in {variable} or PATH of the server"),
        looked => looked.join(", "),
    };
    Err(Unmet { framework, name, least, looked, remedy })
}

async fn ask(requirement: &Requirement, place: &Path) -> Result<Program, String> {
    let mut command = Command::new(place);
    command.args(requirement.question).stdin(Stdio::null()).kill_on_drop(true);
    let said = tokio::time::timeout(PATIENCE, command.output()).await;
    let said = said.map_err(|_| format!("gives no answer in {} seconds", PATIENCE.as_secs()))?;
    let said = said.map_err(|error| format!("cannot be run ({error})"))?;
    let words = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (requirement.read)(&words.join("\n")).ok_or_else(|| "does not say its version".to_owned())
}

#[cfg(test)]
mod tests;
