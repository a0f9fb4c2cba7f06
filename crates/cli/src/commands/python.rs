//! Whose Python a local cluster runs in: the caller's.

use std::path::{Path, PathBuf};

use muster_local::environments::Source;

use super::is_on_kubernetes;
use crate::connect::Client;

/// The interpreter that the caller works with, where the server can use it: on the same machine, for local processes.
pub(super) fn of_caller(client: &Client, provider: &str) -> Option<String> {
    let local = match provider {
        "" => !client.info()?.instances.iter().any(|instance| is_on_kubernetes(instance)),
        provider => provider == "local",
    };
    let (python, _) = of_local_caller(client).filter(|_| local)?;
    Path::to_str(&python).map(str::to_owned)
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
    // A name without a folder is looked for by the server, on the same machine.
    let whole = if python.components().count() > 1 { std::path::absolute(&python).ok()? } else { python };
    Some((whole, source))
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
