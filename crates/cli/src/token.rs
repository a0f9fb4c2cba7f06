//! `muster token create`: creates a token in a tokens file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::{Parser, Subcommand};
use muster_api::auth::{TokenEntry, TokensFile, hash, new_token};
use muster_core::principal::Role;

use crate::failure::Failure;
use crate::files::write_private;
use crate::output;

/// Create tokens for servers with `--auth tokens:FILE`
#[derive(Debug, Parser)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token, add its hash to the file, and print the token once
    Create(Create),
}

#[derive(Debug, Parser)]
struct Create {
    /// Name of the user
    name: String,
    /// The tokens file; created if missing
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The user's project
    #[arg(long, default_value = "default")]
    project: String,
    /// The user's role there: reader, member or admin; may be repeated
    #[arg(long = "role", value_name = "ROLE", default_value = "member")]
    roles: Vec<Role>,
}

impl Token {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command: Command::Create(create) } = self;
        output::exit(create.run())
    }
}

impl Create {
    fn run(self) -> Result<ExitCode> {
        let Self { name, file, project, roles } = self;
        let mut tokens = read(&file)?;
        if tokens.token.iter().any(|token| token.name == name) {
            let message = format!(
                "{} already has a token named '{name}': choose another name, or remove that token",
                file.display()
            );
            return Err(Failure::in_use(anyhow!(message)).into());
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Failure::bad_value(anyhow!(
                "name is {name:?}: must not be empty or have control characters"
            ))
            .into());
        }
        let token = new_token()?;
        let roles = roles.into_iter().collect::<BTreeSet<_>>();
        tokens.token.push(TokenEntry { name, project, roles, sha256: hash(&token) });
        write_private(&file, toml::to_string_pretty(&tokens)?.as_bytes())?;
        Ok(output::print(&format!("{token}\n")))
    }
}

fn read(file: &Path) -> Result<TokensFile> {
    match std::fs::read_to_string(file) {
        Ok(text) => TokensFile::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(TokensFile::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}
