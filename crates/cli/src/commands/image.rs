//! `muster image`: builds, shows and deletes images made from packages and commands.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_core::image_template::ImageState;
use muster_proto::v1alpha2::{
    CreateImageTemplateRequest, DeleteImageTemplateRequest, GetImageBuildLogRequest,
    GetImageBuildLogResponse, GetImageTemplateRequest, ImageTemplate, ListImageTemplatesRequest,
    ListImageTemplatesResponse,
};

use super::{NamespaceFlag, PAGE, pages};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, FormatFlag};
use crate::output::{self, message};

/// Interval at which a build is polled while the command waits for it.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Build, show and delete images that clusters can be created with
#[derive(Debug, Parser)]
pub(crate) struct ImageCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Box<Create>),
    List(List),
    Show(Show),
    Logs(Logs),
    Delete(Delete),
}

/// Build an image: a Python environment for local processes, or a container image on Kubernetes
#[derive(Debug, Parser)]
struct Create {
    /// Name of the image
    name: String,
    /// A package that pip installs, such as six==1.16.0; may be repeated
    #[arg(long, value_name = "PACKAGE")]
    pip: Vec<String>,
    /// A package that conda installs; may be repeated
    #[arg(long, value_name = "PACKAGE")]
    conda: Vec<String>,
    /// A package of the operating system; may be repeated
    #[arg(long, value_name = "PACKAGE")]
    system: Vec<String>,
    /// An environment variable, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Shell commands that run last
    #[arg(long, value_name = "COMMANDS")]
    run: Option<String>,
    /// Base image; required on Kubernetes
    #[arg(long, value_name = "IMAGE")]
    base_image: Option<String>,
    /// Resources of the build on Kubernetes: a shape of the namespace
    #[arg(long, value_name = "SHAPE")]
    shape: Option<String>,
    /// Where the image is built and used: local or kubernetes [default: where clusters are created]
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Do not wait for the build, and do not print its log
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// List the images of the namespace
#[derive(Debug, Parser)]
struct List {
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Show an image of the namespace
#[derive(Debug, Parser)]
struct Show {
    /// Name of the image
    #[arg(add = crate::complete::images())]
    name: String,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Show the log of an image's build
#[derive(Debug, Parser)]
struct Logs {
    /// Name of the image
    #[arg(add = crate::complete::images())]
    name: String,
    /// Keep printing until the build has ended
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Delete an image of the namespace; a running build is stopped
#[derive(Debug, Parser)]
struct Delete {
    /// Name of the image
    #[arg(add = crate::complete::images())]
    name: String,
    /// Delete it even if clusters use it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    server: ServerFlags,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("'{text}' is not a variable: must be NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

impl ImageCommand {
    pub(crate) fn run(self) -> ExitCode {
        let Self { command } = self;
        match command {
            Command::Create(create) => create.run(),
            Command::List(list) => list.run(),
            Command::Show(show) => show.run(),
            Command::Logs(logs) => logs.run(),
            Command::Delete(delete) => delete.run(),
        }
    }
}

impl Create {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self {
                name,
                pip,
                conda,
                system,
                env,
                run,
                base_image,
                shape,
                provider,
                no_wait,
                namespace,
                format,
                server,
            } = self;
            let mut client = server.connect().await?;
            let template = ImageTemplate {
                name,
                pip_packages: pip,
                conda_packages: conda,
                system_packages: system,
                environment_variables: env.into_iter().collect::<BTreeMap<_, _>>(),
                custom_commands: run.unwrap_or_default(),
                base_image: base_image.unwrap_or_default(),
                compute_template: shape.unwrap_or_default(),
                provider: provider.unwrap_or_default(),
                ..ImageTemplate::default()
            };
            let namespace = namespace.resolve(&mut client).await?;
            let request = CreateImageTemplateRequest {
                image_template: Some(template),
                namespace: namespace.clone(),
                ..CreateImageTemplateRequest::default()
            };
            // The request is not retried without an answer: the image may have been created.
            let created = client.images().create_image_template(request).await.map_err(Failure::from)?;
            let mut template = created.into_inner();
            if !no_wait {
                follow(&mut client, &namespace, &template.name, print_lines).await?;
                template = get(&mut client, &namespace, &template.name).await?;
            }
            if template.state == ImageState::Failed.as_str() {
                let ImageTemplate { name, status_reason, .. } = &template;
                let message = format!("the build of image '{name}' failed: {status_reason}");
                return Err(Failure::new(Exit::Failed, message).into());
            }
            print_template(&format, &template)
        })
    }
}

fn print_lines(text: &str) {
    for line in text.lines() {
        message!("{line}");
    }
}

/// Fetches an image template by name.
pub(super) async fn get(client: &mut Client, namespace: &str, name: &str) -> Result<ImageTemplate, Failure> {
    let get = async |client: &Client| {
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        client.images().get_image_template(GetImageTemplateRequest { name, namespace }).await
    };
    Ok(client.retry(get).await?.into_inner())
}

async fn fetch_log(
    client: &mut Client,
    namespace: &str,
    name: &str,
) -> Result<GetImageBuildLogResponse, Failure> {
    let get = async |client: &Client| {
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        client.images().get_image_build_log(GetImageBuildLogRequest { name, namespace }).await
    };
    Ok(client.retry(get).await?.into_inner())
}

/// Prints a log as it grows, until the build has ended.
async fn follow(
    client: &mut Client,
    namespace: &str,
    name: &str,
    mut print: impl FnMut(&str),
) -> Result<(), Failure> {
    let mut shown = String::new();
    loop {
        let GetImageBuildLogResponse { log, state } = fetch_log(client, namespace, name).await?;
        // The server drops the beginning of long logs: print such a log whole.
        print(log.strip_prefix(&shown).unwrap_or(&log));
        shown = log;
        let is_open = [ImageState::Pending, ImageState::Building].iter().any(|open| open.as_str() == state);
        if !is_open {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

impl List {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { namespace, format, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let page = async |page_token: String| {
                let request = ListImageTemplatesRequest {
                    namespace: namespace.clone(),
                    page_size: PAGE,
                    page_token,
                    ..ListImageTemplatesRequest::default()
                };
                let list =
                    async |client: &Client| client.images().list_image_templates(request.clone()).await;
                let answer = client.retry(list).await?.into_inner();
                Ok((answer.image_templates, answer.next_page_token))
            };
            let image_templates = pages(page).await?;
            let all = ListImageTemplatesResponse {
                image_templates: image_templates.clone(),
                ..ListImageTemplatesResponse::default()
            };
            let nothing = "no images: build one with `muster image create`";
            format::list(format.format, &image_templates, "images", &all, nothing)
        })
    }
}

impl Show {
    fn run(self) -> ExitCode {
        output::run(async {
            let mut client = self.server.connect_to_existing().await?;
            let namespace = self.namespace.resolve(&mut client).await?;
            let found = get(&mut client, &namespace, &self.name).await?;
            print_template(&self.format, &found)
        })
    }
}

impl Logs {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, follow: follows, namespace, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            if follows {
                follow(&mut client, &namespace, &name, |text| {
                    output::print(text);
                })
                .await?;
            } else {
                output::print(&fetch_log(&mut client, &namespace, &name).await?.log);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Delete {
    fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, force, namespace, server } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let request = DeleteImageTemplateRequest {
                name: name.clone(),
                namespace,
                force,
                ..DeleteImageTemplateRequest::default()
            };
            client.images().delete_image_template(request).await.map_err(Failure::from)?;
            message!("image '{name}' deleted");
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn print_template(format: &FormatFlag, template: &ImageTemplate) -> Result<ExitCode> {
    format::one(format.format, template, |wide| crate::table::render(std::slice::from_ref(template), wide))
}
