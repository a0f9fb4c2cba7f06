//! `muster env`: the variables that a client of a cluster needs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use muster_proto::v1alpha2::GetEnvironmentRequest;

use super::{AmongFlags, NamespaceFlag};
use crate::connect::{Client, ServerFlags};
use crate::output::say;
use crate::{format, output};

/// Print the variables that a client of a cluster needs, secrets too: eval "$(muster env NAME)"
#[derive(Debug, Parser)]
pub(crate) struct Env {
    /// Which cluster
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    /// How to print them
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "shell")]
    format: Format,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Lines that a shell evaluates
    Shell,
    /// The JSON of the API
    Json,
    /// The same as YAML
    Yaml,
}

impl Env {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, namespace, among, format, server } = self;
            let mut client = server.connect().await?;
            let (framework, provider) = among.words();
            let request = GetEnvironmentRequest {
                name,
                namespace: namespace.namespace,
                framework,
                provider,
                ..GetEnvironmentRequest::default()
            };
            let call = async |client: &Client| client.clusters().get_environment(request.clone()).await;
            let answer = client.ask(call).await?.into_inner();
            Ok(output::print(&match format {
                Format::Json => format::json(&answer)?,
                Format::Yaml => format::yaml(&answer)?,
                Format::Shell => lines(&answer.variables),
            }))
        })
    }
}

/// Lines that a shell evaluates, one a variable. What no shell can have is left out, and that is said.
fn lines(variables: &BTreeMap<String, String>) -> String {
    let (possible, others): (Vec<_>, Vec<_>) = variables.iter().partition(|(name, _)| is_name(name));
    for (name, _) in others {
        say!("warning: no shell has a variable named {name:?}: use -o json");
    }
    let line = |(name, value): (&String, &String)| format!("export {name}={}\n", quoted(value));
    possible.into_iter().map(line).collect::<Vec<_>>().concat()
}

/// Letters, digits and underscores, no digit first.
fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// As a shell takes it literally.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// What a shell that evaluates the lines has then.
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
    fn a_value_reaches_the_shell_as_it_is(#[case] value: &str) {
        let variables = BTreeMap::from([
            ("BEFORE".to_owned(), "b".to_owned()),
            ("ODD".to_owned(), value.to_owned()),
            ("ZLAST".to_owned(), "z".to_owned()),
        ]);
        assert_eq!(evaluated(&variables, "ODD"), value);
        assert_eq!(evaluated(&variables, "ZLAST"), "z", "what comes behind it is not lost");
    }

    #[test]
    fn a_name_that_no_shell_can_have_does_not_spoil_the_others() {
        let names = ["A-B", "1A", "", "A;touch x", "ÄB", "GOOD_1"];
        let variables = names.map(|name| (name.to_owned(), "x".to_owned())).into();
        assert_eq!(lines(&variables), "export GOOD_1='x'\n");
    }
}
