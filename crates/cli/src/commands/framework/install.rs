//! `muster framework install`.

use std::process::ExitCode;

use clap::Parser;
use muster_proto::v1alpha2::{Framework, InstallFrameworkRequest};

use super::progress::{self, FrameworkResults};
use super::{INSTALLED, list_frameworks};
use crate::commands::packages::parse_package;
use crate::connect::ServerFlags;
use crate::failure::{Exit, Failure};
use crate::format::FormatFlag;
use crate::output::{self, message};

/// The name that stands for all frameworks.
const ALL: &str = "all";

/// Install a framework for clusters on this machine, unless it is installed already
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster framework install dask\n  muster framework install dask --with pandas,numpy\n  muster framework install ray --with \"torch>=2\""
)]
pub(super) struct Install {
    /// The framework: dask, ray or spark; or all
    #[arg(value_name = "NAME|all")]
    name: String,
    /// Packages to add, such as pandas or "pandas>=2"; upgrades keep them
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', value_parser = parse_package)]
    with: Vec<String>,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Install {
    pub(super) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, with, format, server } = self;
            let mut client = server.connect().await?;
            let known = list_frameworks(&mut client).await?;
            let (chosen, others): (Vec<Framework>, Vec<Framework>) =
                known.into_iter().partition(|framework| match name.as_str() {
                    ALL => framework.installable,
                    name => framework.name == name,
                });
            if name == ALL {
                for other in others {
                    message!("{}: {}", other.name, other.missing);
                }
            }
            // The server's error lists the known frameworks.
            let unknown = Framework { name: name.clone(), ..Framework::default() };
            let chosen = if chosen.is_empty() && name != ALL { vec![unknown] } else { chosen };
            let mut outcome = FrameworkResults::new(format.format);
            for framework in chosen {
                if framework.usable && with.is_empty() {
                    outcome.add(&already_line(&framework), framework);
                    continue;
                }
                if framework.usable && framework.source != INSTALLED {
                    return Err(not_installed_by_muster(&framework, &with).into());
                }
                let request =
                    InstallFrameworkRequest { name: framework.name.clone(), packages: with.clone() };
                let name = framework.name;
                let mut frameworks = client.frameworks();
                let answers = frameworks.install_framework(request);
                let (framework, already) = progress::follow(answers, &name, "install").await?;
                let line = if already { already_line(&framework) } else { installed_line(&framework) };
                outcome.add(&line, framework);
            }
            outcome.print()
        })
    }
}

fn already_line(framework: &Framework) -> String {
    let Framework { name, version, interpreter, source, .. } = framework;
    format!("{name} {version} is installed already: {interpreter} ({source})")
}

fn installed_line(framework: &Framework) -> String {
    let Framework { name, version, interpreter, packages, .. } = framework;
    let with = if packages.is_empty() { String::new() } else { format!(" with {}", packages.join(", ")) };
    format!("{name} {version} is installed{with}: {interpreter}")
}

/// Returns the failure to add packages to a framework that Muster did not install: clusters that are created from the
/// current folder use another environment than the one to which Muster would add the packages.
fn not_installed_by_muster(framework: &Framework, packages: &[String]) -> Failure {
    let Framework { name, interpreter, source, .. } = framework;
    let what = format!(
        "your clusters use the {name} in {interpreter} ({source}), which was not installed by Muster"
    );
    let hint = format!("add packages with `{interpreter} -m pip install {}`", packages.join(" "));
    Failure::new(Exit::Refused, what).hint(hint)
}
