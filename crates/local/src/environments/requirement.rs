//! Programs that a framework requires in addition to its package, such as Java.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use muster_core::cluster::Framework;
use muster_frameworks::{InstalledProgram, LocalFramework, Requirement};
use tokio::process::Command;

use super::Environments;

/// Time limit of a query: the first start of a program may take seconds on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A required program is missing or too old.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{framework} needs {name} {min_version} or newer, but {found}: {remedy}")]
pub struct UnmetRequirement {
    framework: Framework,
    name: &'static str,
    min_version: u32,
    found: String,
    remedy: &'static str,
}

impl Environments {
    /// Finds the program that a framework requires. Returns the variable by which nodes and clients find it, with its
    /// value.
    pub async fn find_requirement(
        &self,
        framework: &dyn LocalFramework,
    ) -> Result<Option<(&'static str, PathBuf)>, UnmetRequirement> {
        let Some(requirement) = framework.requirement() else { return Ok(None) };
        let known = self.inner.programs.lock().get(requirement.program).cloned();
        let known = known.filter(|known| program_path(&requirement, &known.home).exists());
        let found = match known {
            Some(known) => known,
            None => {
                let variable = std::env::var_os;
                let candidates = candidates(&requirement, variable(requirement.variable), variable("PATH"));
                let found = first_sufficient(framework.framework(), &requirement, candidates).await?;
                self.inner.programs.lock().insert(requirement.program, found.clone());
                found
            }
        };
        Ok(Some((requirement.variable, found.home)))
    }
}

fn program_path(requirement: &Requirement, home: &Path) -> PathBuf {
    home.join("bin").join(requirement.program)
}

/// Lists the paths where the program may be: the one that its variable names, then those on `PATH`.
fn candidates(requirement: &Requirement, home: Option<OsString>, path: Option<OsString>) -> Vec<PathBuf> {
    let home = home.filter(|home| !home.is_empty()).map(|home| program_path(requirement, Path::new(&home)));
    let path = path.unwrap_or_default();
    let folders = std::env::split_paths(&path).map(|folder| folder.join(requirement.program));
    home.into_iter().chain(folders.filter(|file| file.exists())).collect()
}

/// Finds the first candidate that is new enough.
async fn first_sufficient(
    framework: Framework,
    requirement: &Requirement,
    candidates: Vec<PathBuf>,
) -> Result<InstalledProgram, UnmetRequirement> {
    let mut unsuitable = Vec::new();
    for candidate in candidates {
        match query_version(requirement, &candidate).await {
            Ok(found) if found.version >= requirement.min_version => return Ok(found),
            Ok(found) => unsuitable.push(format!("{} is version {}", candidate.display(), found.version)),
            Err(why) => unsuitable.push(format!("{} {why}", candidate.display())),
        }
    }
    let Requirement { name, program, variable, min_version, remedy, .. } = *requirement;
    let found = match unsuitable.as_slice() {
        [] => format!("there is no {program} in {variable} or PATH of the server"),
        unsuitable => unsuitable.join(", "),
    };
    Err(UnmetRequirement { framework, name, min_version, found, remedy })
}

async fn query_version(requirement: &Requirement, candidate: &Path) -> Result<InstalledProgram, String> {
    let mut command = Command::new(candidate);
    command.args(requirement.version_arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = output.map_err(|_| format!("does not answer within {} seconds", TIMEOUT.as_secs()))?;
    let output = output.map_err(|error| format!("cannot be run ({error})"))?;
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (requirement.parse_output)(&texts.join("\n")).ok_or_else(|| "does not report its version".to_owned())
}

#[cfg(test)]
mod tests;
