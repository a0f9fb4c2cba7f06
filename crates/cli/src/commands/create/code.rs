//! Flags for the user's code on the nodes: working directory and environment variables.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use muster_local::environments::MODULE_PATH_VARIABLE;

use super::env_file;
use crate::failure::{Exit, Failure};

/// Advice on how files get to pods. No environment variable can do it: programs connect to Ray in pods by the Ray
/// client, on which `RAY_RUNTIME_ENV` and `RAY_JOB_CONFIG_JSON_ENV_VAR` have no effect (Ray 2.60).
const IN_PODS: &str = "build an image that has the files (muster image create), or let the program upload them: \
                       ray.init(runtime_env={\"working_dir\": \".\"}), upload_file of Dask's Client, --py-files of Spark";

/// The value of `--workdir` for no folder.
const NONE: &str = "none";

/// The given working directory and variables.
#[derive(Debug, Clone, Default, Parser)]
pub(crate) struct CodeFlags {
    /// Folder in which local nodes run and find Python modules, or none [default: the current folder]
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// Environment variable of all nodes, as KEY=VALUE, or KEY for its current value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// File with lines KEY=VALUE, whose values are taken literally; --env takes precedence; may be repeated
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
}

/// Working directory and variables as they are sent to the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// The working directory of the nodes. If it is empty, each node runs in a folder of its own.
    pub(super) working_dir: String,
    pub(super) variables: BTreeMap<String, String>,
}

/// The place in which the nodes will run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLocation {
    /// As processes of this machine.
    ThisMachine,
    /// As processes of another machine.
    OtherMachine,
    /// As pods.
    Kubernetes,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None if text.is_empty() || !text.bytes().all(is_name) => {
            return Err(format!(
                "'{text}' is not a variable: must be KEY=VALUE, or KEY for its current value"
            ));
        }
        None => (text, env::var(text).map_err(|_| format!("{text} is not set here: write {text}=VALUE"))?),
    };
    if name.is_empty() {
        return Err("the name before '=' is empty".to_owned());
    }
    Ok((name.to_owned(), value))
}

impl CodeFlags {
    /// Returns the first given flag; profiles without a framework allow none of them.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let flags = [
            ("--workdir", self.workdir.is_some()),
            ("--env", !self.env.is_empty()),
            ("--env-file", !self.env_file.is_empty()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    /// Reads the files and resolves the folder.
    pub(super) fn resolve(&self, nodes: NodeLocation) -> Result<Code, Failure> {
        let mut variables = BTreeMap::new();
        for file in &self.env_file {
            variables.extend(read_env_file(file)?);
        }
        variables.extend(self.env.iter().cloned());
        if nodes == NodeLocation::ThisMachine
            && let Some(path) = env::var_os(MODULE_PATH_VARIABLE).as_deref().and_then(make_absolute)
        {
            variables.entry(MODULE_PATH_VARIABLE.to_owned()).or_insert(path);
        }
        Ok(Code { working_dir: self.working_dir(nodes)?, variables })
    }

    fn working_dir(&self, nodes: NodeLocation) -> Result<String, Failure> {
        let wrong = |why: String| Failure::new(Exit::Usage, format!("--workdir: {why}"));
        let given = self.workdir.as_deref();
        let folder = match (given, nodes) {
            (Some(folder), _) if folder == NONE => return Ok(String::new()),
            (None, NodeLocation::OtherMachine | NodeLocation::Kubernetes) => return Ok(String::new()),
            (Some(folder), NodeLocation::Kubernetes) => {
                let why = format!("pods cannot see folder '{}' of this machine", folder.display());
                return Err(wrong(why).hint(IN_PODS));
            }
            // A folder of the server's machine, which checks it.
            (Some(folder), NodeLocation::OtherMachine) => folder.to_owned(),
            (Some(folder), NodeLocation::ThisMachine) => {
                folder.canonicalize().map_err(|error| wrong(format!("{}: {error}", folder.display())))?
            }
            (None, NodeLocation::ThisMachine) => {
                env::current_dir().map_err(|error| no_current_folder(&error))?
            }
        };
        if nodes == NodeLocation::ThisMachine && !folder.is_dir() {
            return Err(wrong(format!("{} is not a folder", folder.display())));
        }
        match folder.to_str() {
            Some(folder) => Ok(folder.to_owned()),
            None if given.is_none() => Ok(String::new()),
            None => Err(wrong(format!("{} is not UTF-8", folder.display()))),
        }
    }
}

/// Returns the failure for a command whose own folder was deleted.
fn no_current_folder(error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot use the current folder, in which the nodes would run: {error}"))
        .hint("it may have been deleted: change to another folder, or name one with --workdir")
}

/// Reads the variables of a file.
fn read_env_file(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("--env-file {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    env_file::parse(&text).map_err(wrong)
}

/// Makes all folders of a search path absolute.
fn make_absolute(path: &OsStr) -> Option<String> {
    let folders = env::split_paths(path).filter_map(|folder| std::path::absolute(folder).ok());
    env::join_paths(folders).ok()?.into_string().ok().filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn flags(arguments: &[&str]) -> CodeFlags {
        CodeFlags::try_parse_from([&["create"], arguments].concat()).unwrap()
    }

    fn working_dir(arguments: &[&str], nodes: NodeLocation) -> Result<String, String> {
        flags(arguments).working_dir(nodes).map_err(|failure| failure.to_string())
    }

    #[test]
    fn local_nodes_run_in_the_current_folder_by_default() {
        let here = env::current_dir().unwrap().canonicalize().unwrap().to_str().unwrap().to_owned();
        assert_eq!(working_dir(&[], NodeLocation::ThisMachine), Ok(here.clone()));
        assert_eq!(working_dir(&["--workdir", "."], NodeLocation::ThisMachine), Ok(here.clone()));
        assert_eq!(working_dir(&["--workdir", "none"], NodeLocation::ThisMachine), Ok(String::new()));
        assert_eq!(working_dir(&["--workdir", "src"], NodeLocation::ThisMachine), Ok(format!("{here}/src")));
        assert_eq!(working_dir(&[], NodeLocation::OtherMachine), Ok(String::new()));
        assert_eq!(working_dir(&["--workdir", "/srv"], NodeLocation::OtherMachine), Ok("/srv".to_owned()));
        assert_eq!(working_dir(&[], NodeLocation::Kubernetes), Ok(String::new()));
    }

    #[rstest]
    #[case("no/such", NodeLocation::ThisMachine, "--workdir: no/such: No such file")]
    #[case("Cargo.toml", NodeLocation::ThisMachine, "Cargo.toml is not a folder")]
    #[case("src", NodeLocation::Kubernetes, "--workdir: pods cannot see folder 'src' of this machine")]
    fn a_folder_that_nodes_cannot_run_in_is_refused(
        #[case] folder: &str,
        #[case] nodes: NodeLocation,
        #[case] why: &str,
    ) {
        let refused = working_dir(&["--workdir", folder], nodes).unwrap_err();
        assert!(refused.contains(why), "{refused}");
        let says_how = refused.contains("\nhint: build an image") && refused.contains("runtime_env");
        assert_eq!(says_how, nodes == NodeLocation::Kubernetes, "{refused}");
    }

    #[test]
    fn variables_of_the_command_line_take_precedence_over_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("variables");
        std::fs::write(&file, "# mine\nexport A=1\nB='two words'\nPYTHONPATH=/mine\n").unwrap();
        let file = file.to_str().unwrap();
        let code = flags(&["--env-file", file, "--env", "A=2", "--env", "C=x=y"]);
        let code = code.resolve(NodeLocation::ThisMachine).unwrap();
        let expected = [("A", "2"), ("B", "two words"), ("C", "x=y"), ("PYTHONPATH", "/mine")];
        assert_eq!(code.variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        std::fs::write(file, "not a variable\n").unwrap();
        let refused =
            flags(&["--env-file", file]).resolve(NodeLocation::ThisMachine).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("--env-file {file}: ")), "{refused}");
    }

    #[rstest]
    #[case("A=", Ok(("A", "")))]
    #[case("=x", Err("the name before '=' is empty"))]
    #[case("A B", Err("'A B' is not a variable: must be KEY=VALUE, or KEY for its current value"))]
    #[case("", Err("'' is not a variable: must be KEY=VALUE, or KEY for its current value"))]
    #[case("NO_SUCH_VARIABLE", Err("NO_SUCH_VARIABLE is not set here: write NO_SUCH_VARIABLE=VALUE"))]
    fn a_variable_has_a_name_and_a_value(#[case] text: &str, #[case] expected: Result<(&str, &str), &str>) {
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse_variable(text), expected.map_err(str::to_owned));
    }
}
