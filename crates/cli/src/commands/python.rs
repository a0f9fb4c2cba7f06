//! Whose Python a local cluster runs in: the caller's.

use std::path::{Path, PathBuf};

use muster_core::cluster::Framework;
use muster_local::environments::{Environment, Source};

use super::is_on_kubernetes;
use crate::connect::Client;
use crate::failure::{Exit, Failure};

/// The interpreter that the caller works with, where the server can use it: on the same machine, for local processes.
pub(super) fn of_caller(client: &Client, provider: &str) -> Option<String> {
    let (python, _) = of_local_caller(client).filter(|_| is_local(client, provider))?;
    Path::to_str(&python).map(str::to_owned)
}

/// An interpreter that was named, if it has the framework. A server would take its own instead of one that has not,
/// which is well for what happens to be around, and not for what somebody asks for.
pub(super) async fn named(
    client: &Client,
    provider: &str,
    framework: &str,
    image: String,
) -> Result<String, Failure> {
    let local = framework.parse::<Framework>().ok().and_then(muster_frameworks::local);
    let Some(local) = local.filter(|_| client.is_ours() && is_local(client, provider)) else {
        return Ok(image);
    };
    let python = absolute(PathBuf::from(&image)).unwrap_or_else(|| PathBuf::from(&image));
    match Environment::of(python, Source::Asked, local).await {
        Ok(found) => Ok(found.python.to_string_lossy().into_owned()),
        Err(why) => Err(Failure::new(Exit::Usage, format!("--image {image}: {why}")).hint(format!(
            "a Python with {framework} is expected; `muster framework list` shows where one is"
        ))),
    }
}

fn is_local(client: &Client, provider: &str) -> bool {
    match provider {
        "" => client
            .info()
            .is_some_and(|info| !info.instances.iter().any(|instance| is_on_kubernetes(instance))),
        provider => provider == "local",
    }
}

/// A name without a folder is looked for by the server, on the same machine.
fn absolute(python: PathBuf) -> Option<PathBuf> {
    if python.components().count() > 1 { std::path::absolute(&python).ok() } else { Some(python) }
}

/// The same for local processes, and where it comes from.
pub(super) fn of_local_caller(client: &Client) -> Option<(PathBuf, Source)> {
    client.is_ours().then(|| chosen(&|name| std::env::var_os(name).map(PathBuf::from))).flatten()
}

fn chosen(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<(PathBuf, Source)> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    let own = || set("MUSTER_PYTHON").map(|python| (python, Source::Variable));
    let active = || set("VIRTUAL_ENV").map(|folder| (folder.join("bin/python"), Source::Active));
    let (python, source) = own().or_else(active)?;
    Some((absolute(python)?, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_the_active_environment() {
        let with = |given: &[(&str, &str)]| {
            let chosen = chosen(&|name| {
                given.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            });
            chosen.map(|(python, source)| (python.to_string_lossy().into_owned(), source))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(
            with(&[("VIRTUAL_ENV", "/venv")]).unwrap(),
            ("/venv/bin/python".to_owned(), Source::Active)
        );
        assert_eq!(
            with(&[("VIRTUAL_ENV", "/venv"), ("MUSTER_PYTHON", "/py/bin/python3")]).unwrap(),
            ("/py/bin/python3".to_owned(), Source::Variable)
        );
        assert_eq!(with(&[("VIRTUAL_ENV", ""), ("MUSTER_PYTHON", "python3")]).unwrap().0, "python3");
    }
}
