//! Chooses the Python of a local cluster: the caller's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use muster_core::cluster::Framework;
use muster_local::environments::{Environment, EnvironmentSource, PYTHON_VARIABLE};
use muster_proto::v1alpha2::ListFrameworksRequest;

use super::is_on_kubernetes;
use crate::connect::Client;
use crate::failure::{Exit, Failure};

/// The interpreter of an environment, relative to its folder.
const INTERPRETER: &str = "bin/python";

/// Returns the interpreter for a cluster of a framework: the named one, else the caller's active one if it is on the
/// server's machine.
///
/// A named interpreter must have the framework. An active one without it is skipped, and the server uses its own.
pub(super) async fn resolve(
    client: &Client,
    provider: &str,
    framework: &str,
    image: Option<String>,
) -> Result<Option<String>, Failure> {
    let is_local = is_local(client, provider);
    let (named, given) = match image {
        // The flag has two names, --image and --python.
        Some(image) if client.is_local() && is_local => ("interpreter", image),
        Some(image) => return Ok(Some(image)),
        None => match named_by_variable(client).filter(|_| is_local) {
            Some(python) => (PYTHON_VARIABLE, python.to_string_lossy().into_owned()),
            None if is_local => {
                let found = find_callers_environment(client, framework).await;
                return Ok(found.and_then(|found| found.python.to_str().map(str::to_owned)));
            }
            None => return Ok(None),
        },
    };
    let Some(local) = framework.parse::<Framework>().ok().and_then(muster_frameworks::local) else {
        return Ok(Some(given));
    };
    let python = absolute(PathBuf::from(&given)).unwrap_or_else(|| PathBuf::from(&given));
    let python = interpreter_in(python);
    match Environment::probe(python, EnvironmentSource::Requested, local).await {
        Ok(found) => Ok(Some(found.python.to_string_lossy().into_owned())),
        Err(why) => Err(Failure::new(Exit::Usage, format!("{named} {given}: {why}"))
            .hint(format!("name a Python that has {framework}; `muster framework list` shows one"))),
    }
}

/// Returns the interpreter on which an environment with packages is based, for an interpreter that the user named. The
/// environment gets its version and imports its packages.
pub(super) async fn resolve_base(
    client: &Client,
    provider: &str,
    framework: &str,
    named: String,
) -> Result<String, Failure> {
    let found = resolve(client, provider, framework, Some(named.clone())).await?.unwrap_or(named);
    let path = PathBuf::from(&found);
    let absolute = if client.is_local() && !path.is_absolute() { find_on_path(&path) } else { Some(path) };
    let absolute =
        absolute.filter(|path| path.is_absolute()).and_then(|path| path.to_str().map(str::to_owned));
    absolute.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!("interpreter {found}: packages are installed for an interpreter only"),
        )
        .hint("name it with its absolute path on the machine of the server")
    })
}

/// Finds a program on the caller's PATH.
fn find_on_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

pub(super) fn is_local(client: &Client, provider: &str) -> bool {
    match provider {
        "" => client
            .info()
            .is_some_and(|info| !info.instances.iter().any(|instance| is_on_kubernetes(instance))),
        provider => provider == "local",
    }
}

/// Makes a path absolute; the server looks up a bare name on its PATH, on the same machine.
fn absolute(python: PathBuf) -> Option<PathBuf> {
    if python.components().count() > 1 { std::path::absolute(&python).ok() } else { Some(python) }
}

/// Returns the interpreter of an environment if its folder is given.
fn interpreter_in(python: PathBuf) -> PathBuf {
    if python.is_dir() { python.join(INTERPRETER) } else { python }
}

/// Returns the interpreter in the caller's `MUSTER_PYTHON`, if the server is on the same machine.
pub(super) fn named_by_variable(client: &Client) -> Option<PathBuf> {
    let first = candidates(client).into_iter().next();
    first.filter(|(_, source)| *source == EnvironmentSource::Variable).map(|(python, _)| python)
}

/// Returns the interpreter that the server uses for a framework if none is named.
pub(super) async fn of_server(client: &mut Client, framework: &str) -> Option<PathBuf> {
    let call = async |client: &Client| client.frameworks().list_frameworks(ListFrameworksRequest {}).await;
    let found = client.retry(call).await.ok()?.into_inner().frameworks;
    let found = found.into_iter().find(|found| found.name == framework && found.usable)?;
    Some(found.interpreter.into())
}

/// Returns the caller's first environment that has a framework, if the server is on the same machine.
pub(super) async fn find_callers_environment(client: &Client, framework: &str) -> Option<Environment> {
    let local = framework.parse::<Framework>().ok().and_then(muster_frameworks::local)?;
    for (python, source) in candidates(client) {
        if let Ok(found) = Environment::probe(python, source, local).await {
            return Some(found);
        }
    }
    None
}

fn candidates(client: &Client) -> Vec<(PathBuf, EnvironmentSource)> {
    let around = || interpreters(&|name| std::env::var_os(name));
    client.is_local().then(around).unwrap_or_default()
}

/// Returns the caller's interpreters by precedence: `MUSTER_PYTHON`, active environments, `python` on PATH.
fn interpreters(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<(PathBuf, EnvironmentSource)> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let named = set(PYTHON_VARIABLE).map(|python| (PathBuf::from(python), EnvironmentSource::Variable));
    let of_folder = |folder: OsString| PathBuf::from(folder).join(INTERPRETER);
    let venv = set("VIRTUAL_ENV").map(|folder| (of_folder(folder), EnvironmentSource::Active));
    let conda = set("CONDA_PREFIX").map(|folder| (of_folder(folder), EnvironmentSource::Conda));
    let path = set("PATH").unwrap_or_default();
    let on_path = ["python", "python3"]
        .iter()
        .find_map(|name| {
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
        })
        .map(|python| (python, EnvironmentSource::Path));
    let all = [named, venv, conda, on_path].into_iter().flatten();
    all.filter_map(|(python, source)| Some((interpreter_in(absolute(python)?), source))).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&[], &[])]
    #[case(&[("VIRTUAL_ENV", "/venv")], &[("/venv/bin/python", EnvironmentSource::Active)])]
    #[case(
        &[("CONDA_PREFIX", "/conda"), ("VIRTUAL_ENV", "/venv"), ("MUSTER_PYTHON", "/py/bin/python3")],
        &[("/py/bin/python3", EnvironmentSource::Variable), ("/venv/bin/python", EnvironmentSource::Active), ("/conda/bin/python", EnvironmentSource::Conda)]
    )]
    #[case(&[("VIRTUAL_ENV", ""), ("MUSTER_PYTHON", "python3")], &[("python3", EnvironmentSource::Variable)])]
    fn interpreters_are_ordered_by_precedence(
        #[case] given: &[(&str, &str)],
        #[case] expected: &[(&str, EnvironmentSource)],
    ) {
        let found = interpreters(&|name| {
            given.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        });
        let expected: Vec<_> = expected.iter().map(|(path, source)| (PathBuf::from(path), *source)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_folder_of_an_environment_stands_for_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(interpreter_in(folder.path().to_owned()), folder.path().join("bin/python"));
        assert_eq!(interpreter_in("python3".into()), PathBuf::from("python3"));
    }

    #[test]
    fn the_python_on_path_comes_last() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python3");
        std::fs::write(&python, "").unwrap();
        let found = interpreters(&|name| (name == "PATH").then(|| folder.path().into()));
        assert_eq!(found, [(python.clone(), EnvironmentSource::Path)]);
        let preferred = folder.path().join("python");
        std::fs::write(&preferred, "").unwrap();
        let found = interpreters(&|name| (name == "PATH").then(|| folder.path().into()));
        assert_eq!(found, [(preferred, EnvironmentSource::Path)]);
    }
}
