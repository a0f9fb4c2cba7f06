//! `muster token create`: a token for a server that knows callers by a tokens file.

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

/// Make tokens for servers with `--auth tokens:FILE`
#[derive(Debug, Parser)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token, add its hash to the file, and print it once
    Create(Create),
}

#[derive(Debug, Parser)]
struct Create {
    /// Whose it is
    name: String,
    /// The tokens file; made if it is not there
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The tenant that it acts in
    #[arg(long, default_value = "default")]
    project: String,
    /// What it may do there: reader, member or admin; may be given several times
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
            let sentence = format!(
                "{} has a token named '{name}' already: choose another name, or remove that one",
                file.display()
            );
            return Err(Failure::in_use(anyhow!(sentence)).into());
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Failure::bad_value(anyhow!(
                "a name of visible characters is expected, not {name:?}"
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
