//! Child processes that do not outlive the thread that starts them.

use std::process::Command;

/// Wraps a command so that the kernel kills the process when the thread that starts it ends, even when that is killed.
/// `options` are further options of setpriv (of util-linux).
pub(crate) fn under_death_signal(command: &Command, options: &[String]) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(options).args(["--pdeathsig", "KILL", "--"]);
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}
