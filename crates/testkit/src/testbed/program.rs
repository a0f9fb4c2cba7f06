//! A program with its command line, as plain data that tests can check without running it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::postgres::User;

/// A program with its arguments, and how it is to be run and stopped.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) stop: Signal,
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    user: Option<User>,
}

impl Program {
    pub(super) fn new(name: &'static str, path: impl Into<PathBuf>) -> Self {
        Self { name, stop: Signal::TERM, path: path.into(), args: Vec::new(), env: Vec::new(), user: None }
    }

    /// Adds `--name=value`.
    pub(super) fn flag(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.args.push(flag);
        self
    }

    /// Adds plain arguments.
    pub(super) fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    pub(super) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Runs it as that user, if one is given.
    pub(super) fn user(mut self, user: Option<&User>) -> Self {
        self.user = user.cloned();
        self
    }

    /// Has it stopped by another signal than SIGTERM.
    pub(super) fn stopped_by(mut self, signal: Signal) -> Self {
        self.stop = signal;
        self
    }

    /// The file where its output goes.
    pub(super) fn log(&self, logs: &Path) -> PathBuf {
        logs.join(format!("{}.log", self.name))
    }

    /// The command that starts it so that it dies with the thread that does so, even when that is killed.
    pub(super) fn command(&self) -> std::process::Command {
        let mut command = std::process::Command::new("setpriv");
        if let Some(User { uid, gid }) = &self.user {
            command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--init-groups"]);
        }
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.path).args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &Program) -> String {
        let command = program.command();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn a_program_dies_with_the_testbed() {
        let program = Program::new("etcd", "/bin/etcd").flag("data-dir", "/d").args(["--unsafe-no-fsync"]);
        assert_eq!(words(&program), "--pdeathsig KILL -- /bin/etcd --data-dir=/d --unsafe-no-fsync");
    }

    #[test]
    fn a_program_may_run_as_another_user() {
        let user = User { uid: 101, gid: 104 };
        let program = Program::new("postgres", "/bin/postgres").user(Some(&user));
        let expected = "--reuid 101 --regid 104 --init-groups --pdeathsig KILL -- /bin/postgres";
        assert_eq!(words(&program), expected);
    }
}
