//! Whose Python a local cluster runs in: the caller's.

use std::path::PathBuf;

use muster_core::cluster::Framework;
use muster_local::environments::{Environment, Source};

use super::is_on_kubernetes;
use crate::connect::Client;
use crate::failure::{Exit, Failure};

/// The interpreter that a cluster of a framework runs in: the one that was named, else the one that the caller works
/// with, where the server can use it.
///
/// One that was named has to have the framework. Of the others the server takes its own instead, which is well for what
/// happens to be around, and not for what a caller asks for.
pub(super) async fn resolve(
    client: &Client,
    provider: &str,
    framework: &str,
    image: Option<String>,
) -> Result<Option<String>, Failure> {
    let is_local = is_local(client, provider);
    let (named, given) = match image {
        Some(image) if client.is_ours() && is_local => ("--image", image),
        Some(image) => return Ok(Some(image)),
        None => match of_local_caller(client).filter(|_| is_local) {
            Some((python, Source::Variable)) => ("MUSTER_PYTHON", python.to_string_lossy().into_owned()),
            other => return Ok(other.and_then(|(python, _)| python.to_str().map(str::to_owned))),
        },
    };
    let Some(local) = framework.parse::<Framework>().ok().and_then(muster_frameworks::local) else {
        return Ok(Some(given));
    };
    let python = absolute(PathBuf::from(&given)).unwrap_or_else(|| PathBuf::from(&given));
    match Environment::of(python, Source::Asked, local).await {
        Ok(found) => Ok(Some(found.python.to_string_lossy().into_owned())),
        Err(why) => Err(Failure::new(Exit::Usage, format!("{named} {given}: {why}")).hint(format!(
            "a Python with {framework} is expected; `muster framework list` shows where one is"
        ))),
    }
}

pub(super) fn is_local(client: &Client, provider: &str) -> bool {
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

/// The interpreter that the caller works with, and where it comes from, if the server is on the same machine.
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
