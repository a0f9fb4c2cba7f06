//! `--watch`: the clusters as they are, then every change, through as many connections as it takes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use muster_proto::v1alpha2::{Cluster, WatchClustersRequest, WatchClustersResponse};
use rustix::termios;
use tonic::Status;

use crate::connect::Client;
use crate::failure::{Failure, is_passing, word};
use crate::format::{Format, yaml};
use crate::output::{self, say};
use crate::table::{self, Lines};

/// Begins at the top of a terminal and clears it, without moving what it shows into its history.
const CLEAR: &str = "\x1b[H\x1b[J";

struct Watching {
    request: WatchClustersRequest,
    /// Only this one: the wire filters by the beginning of a name.
    name: Option<String>,
    format: Format,
    /// A terminal shows what there is; a pipe what changed.
    redraws: bool,
    clusters: BTreeMap<(String, String, String), Row>,
    /// Counts changes after the current set.
    changes: u64,
    lines: Lines,
    /// The current set was told.
    begun: bool,
}

/// A cluster on a terminal.
#[derive(Debug, Clone)]
struct Row {
    cluster: Cluster,
    /// Which change was its last; 0 if it has not changed since the watch began.
    change: u64,
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
        changes: 0,
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
            self.changes += u64::from(self.begun);
            let change = if self.begun { self.changes } else { 0 };
            self.clusters.insert(key, Row { cluster: cluster.clone(), change });
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
        let height = termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows: Vec<&Row> = self.clusters.values().collect();
        let render = |clusters: &[Cluster]| table::render(clusters, self.format == Format::Wide);
        format!("{CLEAR}{}", fitted(&rows, height, render))
    }
}

/// A table that fits a terminal of so many lines; 0 is unknown, and has room for everything. Where not all clusters fit,
/// those that changed last are shown, and how many others there are.
fn fitted(rows: &[&Row], height: usize, render: impl Fn(&[Cluster]) -> String) -> String {
    let clusters = |rows: &[&Row]| rows.iter().map(|row| row.cluster.clone()).collect::<Vec<_>>();
    let all = render(&clusters(rows));
    // The last line is where the cursor stands.
    if height == 0 || all.lines().count() < height {
        return all;
    }
    let mut latest = rows.to_vec();
    latest.sort_by_key(|row| Reverse(row.change));
    latest.truncate(height.saturating_sub(3).max(1));
    loop {
        let table = render(&clusters(&latest));
        if table.lines().count() + 2 <= height || latest.len() <= 1 {
            return format!("{table}… and {} more: -o json lists all\n", rows.len() - latest.len());
        }
        latest.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, change: u64) -> Row {
        Row { cluster: Cluster { name: name.to_owned(), ..Cluster::default() }, change }
    }

    /// A title, and as many lines per cluster as its name has letters.
    fn render(clusters: &[Cluster]) -> String {
        let lines = |cluster: &Cluster| format!("{}\n", cluster.name).repeat(cluster.name.len());
        format!("NAME\n{}", clusters.iter().map(lines).collect::<String>())
    }

    #[test]
    fn a_table_that_fits_is_shown_whole_and_in_order() {
        let rows = [row("a", 0), row("b", 7), row("c", 2)];
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(fitted(&rows, 5, render), "NAME\na\nb\nc\n");
        assert_eq!(fitted(&rows, 0, render), "NAME\na\nb\nc\n", "the height is not known");
    }

    #[test]
    fn what_changed_last_is_shown_where_not_everything_fits() {
        let rows = [row("a", 0), row("b", 7), row("c", 2), row("d", 0)];
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(fitted(&rows, 5, render), "NAME\nb\nc\n… and 2 more: -o json lists all\n");
        let wrapped = [row("a", 1), row("bb", 2), row("cc", 3)];
        let wrapped: Vec<&Row> = wrapped.iter().collect();
        assert_eq!(fitted(&wrapped, 5, render), "NAME\ncc\ncc\n… and 2 more: -o json lists all\n");
    }
}
