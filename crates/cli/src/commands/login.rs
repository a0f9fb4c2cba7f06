//! `muster login`: stores a server and token as the context that commands use.

use std::process::ExitCode;

use clap::Parser;

use super::select::who_am_i;
use crate::connect::ServerFlags;
use crate::contexts::{Contexts, SavedContext};
use crate::failure::{Exit, Failure};
use crate::output;

/// Log in to a server; commands then use it by default
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster login https://muster.example.org --token \"$TOKEN\"\n  muster context use --none      # back to the server of this machine"
)]
pub(crate) struct Login {
    /// Address of the server, such as `https://muster.example.org`
    url: String,
    /// Token to authenticate with
    #[arg(long, env = "MUSTER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Name of the context [default: host and port of the address]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Login {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { url, token, name } = self;
            let name = name.unwrap_or_else(|| host(&url).to_owned());
            if name.is_empty() || name.chars().any(char::is_control) {
                let what = format!("name is {name:?}: must not be empty or have control characters");
                return Err(Failure::new(Exit::Usage, what).into());
            }
            let token = token.unwrap_or_default();
            let mut client = ServerFlags::at_address(&url, &token).connect().await?;
            let me = who_am_i(&mut client).await?;
            let mut contexts = Contexts::read()?;
            contexts.add(SavedContext { name: name.clone(), server: url.clone(), token });
            contexts.write()?;
            Ok(output::print(&format!(
                "logged in to {url} as {} (project {}); commands now use context '{name}'\n",
                me.name, me.project
            )))
        })
    }
}

/// Returns host and port of an address.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}
