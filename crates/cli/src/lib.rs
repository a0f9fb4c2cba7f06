//! The command line of Muster, and the place where its parts are wired together.

mod announcement;
mod commands;
mod connect;
mod failure;
mod files;
mod format;
mod output;
mod serve;
mod table;
mod token;
mod version;
mod wait;
mod whoami;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use commands::{
    action, actions, app, completion, create, delete, down, env, events, framework, get, image, logs,
    machines, nodes, restart, run, scale, shape, update,
};

/// One control plane for Ray, Dask and Spark clusters, on a laptop or on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "muster", version = version::LINE, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    Create(Box<create::Create>),
    Get(get::Get),
    Nodes(nodes::Nodes),
    Scale(scale::Scale),
    Update(Box<update::Update>),
    Restart(restart::Restart),
    Delete(delete::Delete),
    Logs(logs::Logs),
    Events(events::Events),
    Actions(actions::Actions),
    Action(action::Action),
    Env(env::Env),
    Framework(framework::FrameworkCommand),
    Shape(shape::ShapeCommand),
    Image(image::ImageCommand),
    App(app::AppCommand),
    Machines(machines::MachinesCommand),
    Down(down::Down),
    Serve(Box<serve::Serve>),
    Whoami(whoami::WhoAmI),
    Token(token::Token),
    Completion(completion::Completion),
    /// Print the version and the commit it was built from
    Version(version::Version),
}

impl Args {
    /// Does what was asked for, and says how it ended.
    pub fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::Run(run) => run.run(),
            Command::Create(create) => create.run(),
            Command::Get(get) => get.run(),
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
            Command::App(app) => app.run(),
            Command::Machines(machines) => machines.run(),
            Command::Down(down) => down.run(),
            Command::Serve(serve) => serve.run(),
            Command::Whoami(whoami) => whoami.run(),
            Command::Token(token) => token.run(),
            Command::Completion(completion) => completion.run(),
            Command::Version(version) => version.run(),
        }
    }
}
