//! `--watch`: the clusters as they are, then every change, through as many connections as it takes.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use muster_proto::v1alpha2::{Cluster, WatchClustersRequest, WatchClustersResponse};
use tonic::Status;

use crate::connect::Client;
use crate::failure::{Failure, is_passing, word};
use crate::format::{Format, yaml};
use crate::output::{self, say};
use crate::table::{self, Lines};

/// Clears a terminal and begins at its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

struct Watching {
    request: WatchClustersRequest,
    /// Only this one: the wire filters by the beginning of a name.
    name: Option<String>,
    format: Format,
    /// A terminal shows what there is; a pipe what changed.
    redraws: bool,
    clusters: BTreeMap<(String, String, String), Cluster>,
    lines: Lines,
    /// The current set was told.
    begun: bool,
}

pub(super) async fn follow(
    client: &mut Client,
    namespace: String,
    name: Option<String>,
    format: Format,
) -> Result<ExitCode> {
    let name_prefix = name.clone().unwrap_or_default();
    let people = matches!(format, Format::Table | Format::Wide);
    let mut watching = Watching {
        request: WatchClustersRequest { namespace, name_prefix, ..WatchClustersRequest::default() },
        name,
        format,
        redraws: people && std::io::stdout().is_terminal(),
        clusters: BTreeMap::new(),
        lines: Lines::default(),
        begun: false,
    };
    if people && !watching.redraws {
        let titles = watching.lines.titles::<Cluster>(format == Format::Wide);
        output::print(&titles);
    }
    loop {
        match watching.listen(client).await {
            Ok(code) => return Ok(code),
            Err(status) if is_passing(&status) => {
                client.come_back(&status, |text| say!("{text}")).await?;
            }
            Err(status) if word(&status) == Some("ResumeTokenExpired") => watching.begin_anew(),
            Err(status) => return Err(Failure::from(status).into()),
        }
    }
}

impl Watching {
    /// Listens until the connection ends, or until nobody reads what is printed.
    async fn listen(&mut self, client: &mut Client) -> Result<ExitCode, Status> {
        let mut watch = client.clusters().watch_clusters(self.request.clone()).await?.into_inner();
        while let Some(message) = watch.message().await? {
            client.heard();
            self.request.resume_token.clone_from(&message.resume_token);
            let text = self.told(&message).map_err(|error| Status::invalid_argument(error.to_string()))?;
            if !text.is_empty() && output::print(&text) != ExitCode::SUCCESS {
                return Ok(ExitCode::FAILURE);
            }
        }
        Err(Status::unavailable("the server ended the watch"))
    }

    /// Away for longer than changes are kept: what there is now is told again.
    fn begin_anew(&mut self) {
        self.request.resume_token.clear();
        self.clusters.clear();
        self.begun = false;
    }

    /// What to print of a message.
    fn told(&mut self, message: &WatchClustersResponse) -> Result<String> {
        let Some(cluster) = &message.cluster else {
            // The first mark ends the current set: until then a terminal would flicker.
            let first = !std::mem::replace(&mut self.begun, true);
            return Ok(if first && self.redraws { self.screen() } else { String::new() });
        };
        if self.name.as_ref().is_some_and(|name| *name != cluster.name) {
            return Ok(String::new());
        }
        let mut cluster = cluster.clone();
        let key = (cluster.namespace.clone(), cluster.name.clone(), cluster.id.clone());
        if message.r#type == "DELETED" {
            self.clusters.remove(&key);
            "DELETED".clone_into(&mut cluster.state);
        } else {
            self.clusters.insert(key, cluster.clone());
        }
        Ok(match self.format {
            Format::Json => format!("{}\n", serde_json::to_string(message)?),
            Format::Yaml => format!("---\n{}", yaml(message)?),
            Format::Name => format!("{}\n", cluster.name),
            Format::Table | Format::Wide if self.redraws => {
                if self.begun {
                    self.screen()
                } else {
                    String::new()
                }
            }
            Format::Table | Format::Wide => self.lines.of(&cluster, self.format == Format::Wide),
        })
    }

    fn screen(&self) -> String {
        let clusters: Vec<Cluster> = self.clusters.values().cloned().collect();
        format!("{CLEAR}{}", table::render(&clusters, self.format == Format::Wide))
    }
}
