//! A program with its command line, as plain data that tests can check without running it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::postgres::User;
use crate::death_signal::under_death_signal;

/// A program with its arguments, its environment, its user, and the signal that stops it.
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

    /// Sets an environment variable.
    pub(super) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Sets the user that the program runs as, if one is given.
    pub(super) fn user(mut self, user: Option<&User>) -> Self {
        self.user = user.cloned();
        self
    }

    /// Sets another signal than SIGTERM to stop the program.
    pub(super) fn stopped_by(mut self, signal: Signal) -> Self {
        self.stop = signal;
        self
    }

    /// The file of the program's output.
    pub(super) fn log(&self, logs: &Path) -> PathBuf {
        logs.join(format!("{}.log", self.name))
    }

    /// The command that starts the program so that it dies with the starting thread.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        let user = self.user.iter().flat_map(|User { uid, gid }| {
            [format!("--reuid={uid}"), format!("--regid={gid}"), "--init-groups".to_owned()]
        });
        under_death_signal(&command, &user.collect::<Vec<_>>())
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
        let expected = "--reuid=101 --regid=104 --init-groups --pdeathsig KILL -- /bin/postgres";
        assert_eq!(words(&program), expected);
    }
}
