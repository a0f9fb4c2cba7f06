//! The command that is run: found before anything is created.

use std::env;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_local::attached;

use crate::failure::{Exit, Failure};

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    /// One that can be run.
    Executable { file: OsString, arguments: Vec<OsString> },
    /// A file that the cluster's Python runs.
    Script { file: PathBuf, arguments: Vec<OsString> },
}

impl Program {
    /// Finds what a command line names, as a shell would.
    pub(super) fn find(command: &[OsString]) -> Result<Self, Failure> {
        let Some((first, arguments)) = command.split_first() else {
            return Err(Failure::new(Exit::Usage, "no command is given: muster run -- COMMAND"));
        };
        let arguments = arguments.to_vec();
        let path = Path::new(first);
        if path.extension().is_some_and(|extension| extension == "py") && path.is_file() {
            return Ok(Self::Script { file: path.to_owned(), arguments });
        }
        let named = path.components().count() > 1;
        let places = if named {
            vec![path.to_owned()]
        } else {
            let folders = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&folders).map(|folder| folder.join(path)).collect()
        };
        if let Some(place) = places.iter().find(|place| is_executable(place)) {
            check_interpreter(place)?;
            return Ok(Self::Executable { file: first.clone(), arguments });
        }
        let shown = path.display();
        if places.iter().any(|place| place.exists()) {
            return Err(Failure::new(Exit::CannotRun, format!("the command '{shown}' is not executable")));
        }
        Err(Failure::new(Exit::NoSuchCommand, format!("there is no command '{shown}': nothing was created")))
    }

    /// The command, attached to this process; a script needs the cluster's Python.
    pub(super) fn command(&self, python: Option<&str>, own_group: bool) -> Command {
        match self {
            Self::Executable { file, arguments } => attached::command(file, arguments, own_group),
            Self::Script { file, arguments } => {
                let python = OsString::from(python.unwrap_or("python3"));
                let all: Vec<OsString> =
                    std::iter::once(file.clone().into_os_string()).chain(arguments.iter().cloned()).collect();
                attached::command(&python, &all, own_group)
            }
        }
    }
}

/// Refuses a script whose interpreter is missing.
fn check_interpreter(file: &Path) -> Result<(), Failure> {
    let mut begin = [0; 256];
    let read = std::fs::File::open(file).and_then(|mut opened| opened.read(&mut begin)).unwrap_or(0);
    let Some(line) = begin[..read].strip_prefix(b"#!") else { return Ok(()) };
    let line =
        String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
    let interpreter = line.split_whitespace().next().unwrap_or_default();
    if interpreter.is_empty() || Path::new(interpreter).exists() {
        return Ok(());
    }
    let what =
        format!("'{}' needs '{interpreter}', which does not exist: nothing was created", file.display());
    Err(Failure::new(Exit::NoSuchCommand, what))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(words: &[&str]) -> Result<Program, Failure> {
        Program::find(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_is_found_before_anything_is_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("job.py");
        let plain = folder.path().join("plain");
        std::fs::write(&script, "print(1)").expect("a script");
        std::fs::write(&plain, "").expect("a file");
        let found = find(&["sh", "-c", "true"]).expect("there is a shell");
        assert!(matches!(found, Program::Executable { .. }));
        let found =
            find(&[script.to_str().expect("a path"), "--fast"]).expect("a script needs not be executable");
        assert_eq!(found, Program::Script { file: script, arguments: vec!["--fast".into()] });
        assert_eq!(find(&["no-such-command"]).expect_err("it does not exist").exit, Exit::NoSuchCommand);
        assert_eq!(find(&["./no/such"]).expect_err("it does not exist").exit, Exit::NoSuchCommand);
        let refused = find(&[plain.to_str().expect("a path")]).expect_err("it is not executable");
        assert_eq!(refused.exit, Exit::CannotRun);
        let folder_name = folder.path().to_str().expect("a path");
        assert_eq!(find(&[folder_name]).expect_err("it is a folder").exit, Exit::CannotRun);
        std::fs::write(&plain, "#!/no/such/interpreter\n").expect("a script");
        std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let refused = find(&[plain.to_str().expect("a path")]).expect_err("its interpreter does not exist");
        assert_eq!(refused.exit, Exit::NoSuchCommand);
    }
}
