//! The user's command. It is looked up before anything is created, and runs with the cluster's Python first on `PATH`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_local::attached;
use muster_local::environments::{MODULE_PATH_VARIABLE, PYTHON_VARIABLE};

use crate::failure::{Exit, Failure};

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Program {
    /// A file that can be executed.
    Executable { file: OsString, arguments: Vec<OsString> },
    /// A Python file, which the cluster's Python runs.
    Script { file: PathBuf, arguments: Vec<OsString> },
}

impl Program {
    /// Finds the program of a command line, as a shell would with this PATH.
    pub(super) fn find(command: &[OsString], folders: &OsStr) -> Result<Self, Failure> {
        let Some((first, arguments)) = command.split_first() else {
            return Err(Failure::new(Exit::Usage, "no command is given: add it after --"));
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
            env::split_paths(folders).map(|folder| folder.join(path)).collect()
        };
        if let Some(place) = places.iter().find(|place| is_executable(place)) {
            check_interpreter(place)?;
            return Ok(Self::Executable { file: first.clone(), arguments });
        }
        let shown = path.display();
        if places.iter().any(|place| place.exists()) {
            return Err(Failure::new(Exit::CannotRun, format!("the command '{shown}' is not executable")));
        }
        let missing = Failure::new(Exit::NoSuchCommand, format!("command '{shown}' not found"));
        // As in shells, a file of the current folder is run only if its folder is named.
        Err(if path.is_file() {
            missing.hint(format!("to run that file, write './{shown}'"))
        } else {
            missing
        })
    }

    /// Builds the command as a child of this process.
    pub(super) fn attached(&self, environment: &ClientEnvironment, own_group: bool) -> Command {
        let (file, arguments) = self.command_line(environment);
        environment.apply_to(attached::command(&file, &arguments, own_group))
    }

    /// Builds the command that replaces this process.
    pub(super) fn plain(&self, environment: &ClientEnvironment) -> Command {
        let (file, arguments) = self.command_line(environment);
        let mut command = Command::new(file);
        command.args(arguments);
        environment.apply_to(command)
    }

    /// Finds the Python that runs the command, as far as that can be known: of a script, of `python`, and of a command
    /// that names it in its first line.
    pub(super) fn interpreter(&self, environment: &ClientEnvironment) -> Option<PathBuf> {
        let found = |name: &Path| {
            let is_named = name.components().count() > 1;
            let mut places = env::split_paths(&environment.path()).map(|folder| folder.join(name)).collect();
            if is_named {
                places = vec![name.to_owned()];
            }
            places.into_iter().find(|place: &PathBuf| is_executable(place))
        };
        let is_python = |file: &Path| {
            file.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("python"))
        };
        match self {
            Self::Script { .. } => environment.python.clone().or_else(|| found(Path::new("python3"))),
            Self::Executable { file, .. } => {
                let file = found(Path::new(file))?;
                if is_python(&file) {
                    return Some(file);
                }
                let line = first_line(&file)?;
                let mut words = line.split_whitespace().map(Path::new);
                let named = words.next()?;
                let python = if named.ends_with("env") { words.next()? } else { named };
                if is_python(python) { found(python) } else { None }
            }
        }
    }

    /// Returns program and arguments; scripts are run by the cluster's Python.
    fn command_line(&self, environment: &ClientEnvironment) -> (OsString, Vec<OsString>) {
        match self {
            Self::Executable { file, arguments } => (file.clone(), arguments.clone()),
            Self::Script { file, arguments } => {
                let python = environment.python.clone().unwrap_or_else(|| "python3".into());
                let script = file.clone().into_os_string();
                (python.into(), std::iter::once(script).chain(arguments.iter().cloned()).collect())
            }
        }
    }
}

/// The environment of a program that uses a cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientEnvironment {
    /// The variables of the cluster's nodes and of its clients.
    pub(super) variables: BTreeMap<String, String>,
    /// The cluster's interpreter, if it is on this machine.
    pub(super) python: Option<PathBuf>,
}

impl ClientEnvironment {
    /// Builds the environment from the variables of the cluster's nodes and those for its clients, which take
    /// precedence.
    pub(super) fn new(of_nodes: BTreeMap<String, String>, of_clients: BTreeMap<String, String>) -> Self {
        let python = of_clients.get(PYTHON_VARIABLE).map(PathBuf::from).filter(|python| python.exists());
        let mut variables = of_nodes;
        if let Some(path) = variables.get_mut(MODULE_PATH_VARIABLE) {
            *path = joined(&env::var_os(MODULE_PATH_VARIABLE).unwrap_or_default(), path);
        }
        variables.extend(of_clients);
        Self { variables, python }
    }

    /// Returns PATH with the folder of the cluster's Python first.
    pub(super) fn path(&self) -> OsString {
        let own = env::var_os("PATH").unwrap_or_default();
        let folder = self.python.as_deref().and_then(Path::parent).map(Path::to_owned);
        let folders = folder.into_iter().chain(env::split_paths(&own));
        env::join_paths(folders).unwrap_or(own)
    }

    fn apply_to(&self, mut command: Command) -> Command {
        command.envs(&self.variables).env("PATH", self.path());
        command
    }
}

/// Appends to the caller's module path the folders of the cluster's that it lacks.
fn joined(own: &OsStr, of_nodes: &str) -> String {
    let own: Vec<PathBuf> = env::split_paths(own).filter(|folder| !folder.as_os_str().is_empty()).collect();
    let more = env::split_paths(of_nodes).filter(|folder| !own.contains(folder));
    let joined = env::join_paths(own.iter().cloned().chain(more)).ok();
    joined.and_then(|path| path.into_string().ok()).unwrap_or_else(|| of_nodes.to_owned())
}

/// Fails if the interpreter in a script's first line does not exist.
fn check_interpreter(file: &Path) -> Result<(), Failure> {
    let Some(line) = first_line(file) else { return Ok(()) };
    let interpreter = line.split_whitespace().next().unwrap_or_default();
    if interpreter.is_empty() || Path::new(interpreter).exists() {
        return Ok(());
    }
    let what = format!("'{}' needs '{interpreter}', which does not exist", file.display());
    Err(Failure::new(Exit::NoSuchCommand, what))
}

/// Returns the interpreter that the first line of a file names, with its arguments.
fn first_line(file: &Path) -> Option<String> {
    let mut begin = [0; 256];
    let read = std::fs::File::open(file).and_then(|mut opened| opened.read(&mut begin)).unwrap_or(0);
    let line = begin[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(words: &[&str]) -> Result<Program, Failure> {
        let path = env::var_os("PATH").unwrap_or_default();
        Program::find(&words.iter().map(OsString::from).collect::<Vec<_>>(), &path)
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
        let here = find(&["Cargo.toml"]).expect_err("tests run in the folder of the crate, not on PATH");
        assert_eq!(here.exit, Exit::NoSuchCommand);
        assert!(here.to_string().contains("'./Cargo.toml'"), "{here}");
        let refused = find(&[plain.to_str().expect("a path")]).expect_err("it is not executable");
        assert_eq!(refused.exit, Exit::CannotRun);
        let folder_name = folder.path().to_str().expect("a path");
        assert_eq!(find(&[folder_name]).expect_err("it is a folder").exit, Exit::CannotRun);
        std::fs::write(&plain, "#!/no/such/interpreter\n").expect("a script");
        std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let refused = find(&[plain.to_str().expect("a path")]).expect_err("its interpreter does not exist");
        assert_eq!(refused.exit, Exit::NoSuchCommand);
    }

    #[test]
    fn the_python_of_a_cluster_comes_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let python = folder.path().join("python");
        std::fs::write(&python, "").expect("a file");
        let variables = BTreeMap::from([
            (PYTHON_VARIABLE.to_owned(), python.to_str().expect("a path").to_owned()),
            ("SOMETHING".to_owned(), "else".to_owned()),
        ]);
        let environment = ClientEnvironment::new(BTreeMap::new(), variables);
        assert_eq!(env::split_paths(&environment.path()).next().as_deref(), Some(folder.path()));
        let script = Program::Script { file: "job.py".into(), arguments: vec!["--fast".into()] };
        let command = script.plain(&environment);
        assert_eq!(command.get_program(), python);
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["job.py", "--fast"]);
        let set: Vec<_> = command.get_envs().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(set, [PYTHON_VARIABLE, "PATH", "SOMETHING"]);
    }

    #[test]
    fn the_python_of_a_command_is_found_by_its_name_or_by_its_first_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, text).expect("a file");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
            file
        };
        let python = write("python3.9", "");
        let tool = write("tool", &format!("#!{}\n", python.display()));
        let by_env = write("by-env", "#!/usr/bin/env python3.9\n");
        let plain = write("plain", "#!/bin/sh\n");
        let environment = ClientEnvironment { python: Some(python.clone()), ..ClientEnvironment::default() };
        let of = |file: &Path| {
            let file = file.as_os_str().to_owned();
            Program::Executable { file, arguments: Vec::new() }.interpreter(&environment)
        };
        for file in [python.as_path(), &tool, &by_env, Path::new("python3.9")] {
            assert_eq!(of(file).as_ref(), Some(&python), "{}", file.display());
        }
        assert_eq!((of(&plain), of(Path::new("no-such-command"))), (None, None));
        let script = Program::Script { file: "job.py".into(), arguments: Vec::new() };
        assert_eq!(script.interpreter(&environment), Some(python));
    }

    #[test]
    fn variables_of_clients_go_before_those_of_nodes() {
        let variables = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let of_nodes = variables(&[("LEVEL", "debug"), ("DASK_SCHEDULER_ADDRESS", "tcp://nodes:1")]);
        let of_clients = variables(&[("DASK_SCHEDULER_ADDRESS", "tcp://clients:1")]);
        let expected = variables(&[("LEVEL", "debug"), ("DASK_SCHEDULER_ADDRESS", "tcp://clients:1")]);
        assert_eq!(ClientEnvironment::new(of_nodes, of_clients).variables, expected);
    }

    #[test]
    fn the_callers_module_path_comes_before_the_clusters() {
        assert_eq!(joined(OsStr::new(""), "/a:/b"), "/a:/b");
        assert_eq!(joined(OsStr::new("/c:/a"), "/a:/b"), "/c:/a:/b");
    }

    #[test]
    fn the_python_of_another_machine_is_not_used() {
        let variables = BTreeMap::from([(PYTHON_VARIABLE.to_owned(), "/no/such/python".to_owned())]);
        let environment = ClientEnvironment::new(BTreeMap::new(), variables);
        assert_eq!(environment.path(), env::var_os("PATH").unwrap_or_default());
        let script = Program::Script { file: "job.py".into(), arguments: Vec::new() };
        assert_eq!(script.plain(&environment).get_program(), "python3");
    }
}
