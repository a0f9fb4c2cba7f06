//! `muster env`: prints the environment variables for clients of a cluster.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use super::{ClusterFlags, environment};
use crate::output::message;
use crate::{format, output};

/// Print the environment variables for clients of a cluster, including secrets: eval "$(muster env NAME)"
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  eval \"$(muster env fred)\"\n  muster env fred -o json")]
pub(crate) struct Env {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "shell")]
    format: EnvFormat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EnvFormat {
    /// Commands for eval in a shell
    Shell,
    /// The JSON of the API
    Json,
    /// The same as YAML
    Yaml,
}

impl Env {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { cluster, format } = self;
            let (mut client, cluster) = cluster.find().await?;
            let answer = environment(&mut client, &cluster.id).await?;
            Ok(output::print(&match format {
                EnvFormat::Json => format::json(&answer)?,
                EnvFormat::Yaml => format::yaml(&answer)?,
                EnvFormat::Shell => lines(&answer.variables),
            }))
        })
    }
}

/// Formats one `export` line per variable. Names that shells do not allow are skipped with a warning.
fn lines(variables: &BTreeMap<String, String>) -> String {
    let (possible, others): (Vec<_>, Vec<_>) = variables.iter().partition(|(name, _)| is_shell_name(name));
    for (name, _) in others {
        message!("warning: {name:?} is not a valid name of a shell variable: use -o json");
    }
    let line = |(name, value): (&String, &String)| format!("export {name}={}\n", quote(value));
    possible.into_iter().map(line).collect::<Vec<_>>().concat()
}

/// Returns true for names of letters, digits and underscores that do not begin with a digit.
fn is_shell_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Quotes a value so that a shell takes it literally.
fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Returns the value of a variable in a shell that evaluated the lines.
    fn evaluated(variables: &BTreeMap<String, String>, name: &str) -> String {
        let script = format!("eval \"$LINES_OF_ENV\"; printf %s \"${name}\"");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).env("LINES_OF_ENV", lines(variables));
        String::from_utf8(shell.output().unwrap().stdout).unwrap()
    }

    #[rstest]
    #[case("tcp://127.0.0.1:8786")]
    #[case("")]
    #[case("a'b \"c\" $d `e` $(f) !g \\h #i ; j & k | l > m *")]
    #[case("'")]
    #[case("''\\'")]
    #[case("-n one\n\ttwo\r\n")]
    #[case("größer, 大")]
    fn a_value_reaches_the_shell_unchanged(#[case] value: &str) {
        let variables = BTreeMap::from([
            ("BEFORE".to_owned(), "b".to_owned()),
            ("ODD".to_owned(), value.to_owned()),
            ("ZLAST".to_owned(), "z".to_owned()),
        ]);
        assert_eq!(evaluated(&variables, "ODD"), value);
        assert_eq!(evaluated(&variables, "ZLAST"), "z", "variables after it are not lost");
    }

    #[test]
    fn invalid_names_of_variables_are_skipped() {
        let names = ["A-B", "1A", "", "A;touch x", "ÄB", "GOOD_1"];
        let variables = names.map(|name| (name.to_owned(), "x".to_owned())).into();
        assert_eq!(lines(&variables), "export GOOD_1='x'\n");
    }
}
