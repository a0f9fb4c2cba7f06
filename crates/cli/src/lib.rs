//! The `muster` binary as a library: the commands, and `muster serve`, which wires store, engine, providers and APIs
//! into one server.
//!
//! It contains no rule about clusters. Commands are clients of the core API over gRPC and work the same against a
//! server on another machine; rules are in `muster-service` and `muster-engine`.
//!
//! Start reading at [`Args::run`], then `commands.rs` (what all commands share) and one file of `commands/`.
//! `connect.rs` finds or starts the server, `wait.rs` follows an action until it ends, and `serve.rs` is the server.
//! `docs/cli.md` describes the commands for users.

mod announcement;
mod commands;
mod complete;
mod config_folder;
mod connect;
mod contexts;
mod failure;
mod files;
mod format;
mod leading_flags;
mod output;
mod serve;
mod table;
mod token;
mod version;
mod wait;
mod whoami;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::CompleteEnv;
use commands::{
    action, actions, app, completion, context, create, delete, describe, down, env, events, exec, framework,
    get, image, job, login, logs, machines, man, nodes, restart, run, scale, shape, top, update, usage,
    wait_for,
};

use failure::Exit;
use output::message;

/// One control plane for Ray, Dask and Spark clusters, on a laptop or on Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version = version::LINE,
    arg_required_else_help = true,
    after_help = "--server, --token, --data-dir, -n and -o may also precede the command."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    Create(Box<create::Create>),
    Exec(exec::Exec),
    Shell(exec::Shell),
    #[command(alias = "ls", alias = "list", alias = "ps", alias = "status")]
    Get(get::Get),
    Describe(describe::Describe),
    Nodes(nodes::Nodes),
    Scale(scale::Scale),
    Update(Box<update::Update>),
    Restart(restart::Restart),
    #[command(alias = "rm")]
    Delete(delete::Delete),
    Wait(wait_for::Wait),
    Logs(logs::Logs),
    Events(events::Events),
    Actions(actions::Actions),
    Action(action::Action),
    Env(env::Env),
    Framework(framework::FrameworkCommand),
    Shape(shape::ShapeCommand),
    Image(image::ImageCommand),
    Job(job::JobCommand),
    App(app::AppCommand),
    Machines(machines::MachinesCommand),
    Top(top::Top),
    Usage(usage::UsageCommand),
    Down(down::Down),
    Serve(Box<serve::Serve>),
    Login(login::Login),
    Context(context::ContextCommand),
    Whoami(whoami::WhoAmI),
    Token(token::Token),
    Completion(completion::Completion),
    Man(man::Man),
    /// Print the version and the commit it was built from
    Version(version::Version),
    /// Not a command: names the two that may be meant
    #[command(hide = true)]
    Stop {
        /// The cluster that the user wanted to stop.
        name: Option<String>,
    },
}

impl Args {
    /// Parses the arguments of this process. Exits if they are wrong, or if a shell asks for completions.
    pub fn read() -> Self {
        CompleteEnv::with_factory(Self::command).complete();
        let arguments = leading_flags::move_behind_command(std::env::args_os(), &Self::command());
        Self::try_parse_from(arguments).unwrap_or_else(|error| {
            if let Some(expected) = oshinko_message(&error) {
                message!("error: {expected}");
            }
            error.exit()
        })
    }

    /// Runs the command and returns its exit code.
    pub fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::Run(run) => run.run(),
            Command::Create(create) => create.run(),
            Command::Exec(exec) => exec.run(),
            Command::Shell(shell) => shell.run(),
            Command::Get(get) => get.run(),
            Command::Describe(describe) => describe.run(),
            Command::Wait(wait) => wait.run(),
            Command::Nodes(nodes) => nodes.run(),
            Command::Scale(scale) => scale.run(),
            Command::Update(update) => update.run(),
            Command::Restart(restart) => restart.run(),
            Command::Delete(delete) => delete.run(),
            Command::Logs(logs) => logs.run(),
            Command::Events(events) => events.run(),
            Command::Actions(actions) => actions.run(),
            Command::Action(action) => action.run(),
            Command::Env(env) => env.run(),
            Command::Framework(framework) => framework.run(),
            Command::Shape(shape) => shape.run(),
            Command::Image(image) => image.run(),
            Command::Job(job) => job.run(),
            Command::App(app) => app.run(),
            Command::Machines(machines) => machines.run(),
            Command::Top(top) => top.run(),
            Command::Usage(usage) => usage.run(),
            Command::Down(down) => down.run(),
            Command::Serve(serve) => serve.run(),
            Command::Login(login) => login.run(),
            Command::Context(context) => context.run(),
            Command::Whoami(whoami) => whoami.run(),
            Command::Token(token) => token.run(),
            Command::Completion(completion) => completion.run(),
            Command::Man(man) => man.run(),
            Command::Version(version) => version.run(),
            Command::Stop { name } => {
                let name = name.unwrap_or_else(|| "NAME".to_owned());
                message!("error: clusters cannot be stopped");
                message!(
                    "hint: `muster delete {name}` deletes it; `muster down --keep-clusters` stops the server"
                );
                Exit::Usage.into()
            }
        }
    }
}

/// Returns the message of the Oshinko CLI for wrong arguments, which scripts look for.
fn oshinko_message(error: &clap::Error) -> Option<&'static str> {
    let argument = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(argument) => argument.clone(),
        ContextValue::Strings(arguments) => arguments.join(" "),
        _ => return None,
    };
    match error.kind() {
        ErrorKind::MissingRequiredArgument if argument.contains("<NAME>") => Some("NAME is required"),
        ErrorKind::InvalidValue if argument.starts_with("--output") => {
            Some("INVALID output format, only yaml|json allowed")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(&["create"], Some("NAME is required"))]
    #[case(&["delete"], Some("NAME is required"))]
    #[case(&["get", "-o", "xml"], Some("INVALID output format, only yaml|json allowed"))]
    #[case(&["get", "--nothing"], None)]
    #[case(&["scale", "fred", "--workers", "x"], None)]
    fn wrong_arguments_have_the_messages_of_oshinko(
        #[case] arguments: &[&str],
        #[case] expected: Option<&str>,
    ) {
        let error = Args::try_parse_from([&["muster"], arguments].concat()).unwrap_err();
        assert_eq!(oshinko_message(&error), expected);
    }
}
