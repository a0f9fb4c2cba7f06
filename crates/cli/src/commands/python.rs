//! Whose Python a local cluster runs in: the caller's.

use std::path::{Path, PathBuf};

use crate::connect::Client;

/// The interpreter that the caller works with, where the server can use it: on the same machine, for local processes.
pub(super) fn of_caller(client: &Client, provider: &str) -> Option<String> {
    let goes_elsewhere = |instance: &String| instance.starts_with("kubernetes:");
    let local = match provider {
        "" => !client.info()?.instances.iter().any(goes_elsewhere),
        provider => provider == "local",
    };
    (client.is_ours() && local).then(|| chosen(&|name| std::env::var_os(name).map(PathBuf::from))).flatten()
}

fn chosen(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Option<String> {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    let python =
        set("MUSTER_PYTHON").or_else(|| set("VIRTUAL_ENV").map(|folder| folder.join("bin/python")))?;
    // A name without a folder is looked for by the server, on the same machine.
    let whole = if python.components().count() > 1 { std::path::absolute(&python).ok()? } else { python };
    Path::to_str(&whole).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_the_active_environment() {
        let with = |given: &[(&str, &str)]| {
            chosen(&|name| given.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value)))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("VIRTUAL_ENV", "/venv")]).unwrap(), "/venv/bin/python");
        assert_eq!(
            with(&[("VIRTUAL_ENV", "/venv"), ("MUSTER_PYTHON", "/py/bin/python3")]).unwrap(),
            "/py/bin/python3"
        );
        assert_eq!(with(&[("VIRTUAL_ENV", ""), ("MUSTER_PYTHON", "python3")]).unwrap(), "python3");
    }
}
