//! `muster env`: the variables that a client of a cluster needs.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use muster_proto::v1alpha2::GetEnvironmentRequest;

use super::NamespaceFlag;
use crate::connect::{Client, ServerFlags};
use crate::{format, output};

/// Print the variables that a client of a cluster needs, secrets too: eval "$(muster env NAME)"
#[derive(Debug, Parser)]
pub(crate) struct Env {
    /// Which cluster
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
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
            let Self { name, namespace, format, server } = self;
            let mut client = server.connect().await?;
            let request = GetEnvironmentRequest {
                name,
                namespace: namespace.namespace,
                ..GetEnvironmentRequest::default()
            };
            let call = async |client: &Client| client.clusters().get_environment(request.clone()).await;
            let answer = client.ask(call).await?.into_inner();
            Ok(output::print(&match format {
                Format::Json => format::json(&answer)?,
                Format::Yaml => format::yaml(&answer)?,
                Format::Shell => {
                    let line =
                        |(name, value): (&String, &String)| format!("export {name}={}\n", quoted(value));
                    answer.variables.iter().map(line).collect::<Vec<_>>().concat()
                }
            }))
        })
    }
}

/// As a shell takes it literally.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reaches_the_shell_as_it_is() {
        assert_eq!(quoted("tcp://127.0.0.1:8786"), "'tcp://127.0.0.1:8786'");
        let odd = "a'b \"c\" $d `e`\nf";
        let script = format!("printf %s {}", quoted(odd));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), odd);
    }
}
