//! `muster get --watch`: shows the clusters, then every change, through lost connections and restarts of the server.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use muster_proto::v1alpha2::{Cluster, WatchClustersRequest, WatchClustersResponse};
use rustix::termios;
use tonic::Status;

use super::deleted;
use crate::connect::Client;
use crate::failure::{Failure, error_code, is_retryable};
use crate::format::{Format, yaml};
use crate::output::{self, message};
use crate::table::{self, InNamespace, StreamedTable};

/// Moves to the top of a terminal and clears it; the old screen does not go into the scrollback.
pub(super) const CLEAR: &str = "\x1b[H\x1b[J";

/// The type of the message, and the state, of a deleted cluster.
const DELETED: &str = "DELETED";

/// The state of one `--watch`.
struct Watching {
    request: WatchClustersRequest,
    /// The only cluster to show, until it is deleted. The API filters by a prefix of the name, so others may arrive
    /// too.
    only: Option<Cluster>,
    format: Format,
    /// True on a terminal, which shows all clusters. A pipe shows the changes instead.
    redraws: bool,
    clusters: BTreeMap<(String, String, String), WatchedRow>,
    /// Number of changes since the initial list.
    changes: u64,
    lines: StreamedTable,
    /// True once the initial list is complete.
    begun: bool,
}

/// A cluster as it is shown on a terminal.
#[derive(Debug, Clone)]
struct WatchedRow {
    cluster: Cluster,
    /// Number of its last change; 0 if it has not changed since the watch began.
    change: u64,
}

pub(super) async fn follow(
    client: &mut Client,
    namespace: String,
    only: Option<Cluster>,
    format: Format,
) -> Result<ExitCode> {
    let name_prefix = only.as_ref().map(|cluster| cluster.name.clone()).unwrap_or_default();
    let people = matches!(format, Format::Table | Format::Wide);
    let mut watching = Watching {
        request: WatchClustersRequest { namespace, name_prefix, ..WatchClustersRequest::default() },
        only,
        format,
        redraws: people && std::io::stdout().is_terminal(),
        clusters: BTreeMap::new(),
        changes: 0,
        lines: StreamedTable::default(),
        begun: false,
    };
    if people && !watching.redraws {
        let wide = format == Format::Wide;
        let titles = if watching.request.namespace.is_empty() {
            watching.lines.titles::<Cluster>(wide)
        } else {
            watching.lines.titles::<InNamespace>(wide)
        };
        output::print(&titles);
    }
    loop {
        match watching.print_changes(client).await {
            Ok(code) => return Ok(code),
            Err(status) if is_retryable(&status) => {
                client.reconnect(&status, |text| message!("{text}")).await?;
            }
            Err(status) if error_code(&status) == Some("ResumeTokenExpired") => watching.restart(),
            Err(status) => return Err(Failure::from(status).into()),
        }
    }
}

impl Watching {
    /// Prints changes until the connection ends, the only cluster is deleted, or the output is closed.
    async fn print_changes(&mut self, client: &mut Client) -> Result<ExitCode, Status> {
        let mut watch = client.clusters().watch_clusters(self.request.clone()).await?.into_inner();
        while let Some(message) = watch.message().await? {
            client.mark_answered();
            self.request.resume_token.clone_from(&message.resume_token);
            let text =
                self.render_message(&message).map_err(|error| Status::invalid_argument(error.to_string()))?;
            if !text.is_empty() && output::print(&text) != ExitCode::SUCCESS {
                return Ok(ExitCode::FAILURE);
            }
            if let Some(only) = self.only.as_ref().filter(|_| self.is_over(&message)) {
                deleted::report(&only.name);
                return Ok(ExitCode::SUCCESS);
            }
        }
        Err(Status::unavailable("the server ended the watch"))
    }

    /// Starts again with the full list, after an outage longer than the server keeps changes.
    fn restart(&mut self) {
        self.request.resume_token.clear();
        self.clusters.clear();
        self.begun = false;
    }

    /// Returns true if the only cluster does not exist after this message: it was deleted, or is not in the initial
    /// list.
    fn is_over(&self, message: &WatchClustersResponse) -> bool {
        let Some(only) = &self.only else { return false };
        match &message.cluster {
            Some(cluster) => cluster.id == only.id && message.r#type == DELETED,
            None => self.clusters.is_empty(),
        }
    }

    /// Applies a message and returns the text to print.
    fn render_message(&mut self, message: &WatchClustersResponse) -> Result<String> {
        let Some(cluster) = &message.cluster else {
            // The first bookmark ends the initial list; drawing before it would flicker.
            let first = !std::mem::replace(&mut self.begun, true);
            return Ok(if first && self.redraws { self.screen() } else { String::new() });
        };
        if self.only.as_ref().is_some_and(|only| only.id != cluster.id) {
            return Ok(String::new());
        }
        let mut cluster = cluster.clone();
        let key = (cluster.namespace.clone(), cluster.name.clone(), cluster.id.clone());
        if message.r#type == DELETED {
            self.clusters.remove(&key);
            DELETED.clone_into(&mut cluster.state);
        } else {
            self.changes += u64::from(self.begun);
            let change = if self.begun { self.changes } else { 0 };
            self.clusters.insert(key, WatchedRow { cluster: cluster.clone(), change });
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
            Format::Table | Format::Wide if self.request.namespace.is_empty() => {
                self.lines.row(&cluster, self.format == Format::Wide)
            }
            Format::Table | Format::Wide => {
                self.lines.row(&InNamespace(cluster), self.format == Format::Wide)
            }
        })
    }

    fn screen(&self) -> String {
        let height = termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows: Vec<&WatchedRow> = self.clusters.values().collect();
        let wide = self.format == Format::Wide;
        let is_one_namespace = !self.request.namespace.is_empty();
        let render = |clusters: &[Cluster]| {
            if is_one_namespace {
                table::render(&clusters.iter().cloned().map(InNamespace).collect::<Vec<_>>(), wide)
            } else {
                table::render(clusters, wide)
            }
        };
        format!("{CLEAR}{}", fit_table(&rows, height, render))
    }
}

/// Renders a table that fits a terminal of this height (0 means unknown). If not all clusters fit, shows those that
/// changed last and the number of the others.
fn fit_table(rows: &[&WatchedRow], height: usize, render: impl Fn(&[Cluster]) -> String) -> String {
    let clusters = |rows: &[&WatchedRow]| rows.iter().map(|row| row.cluster.clone()).collect::<Vec<_>>();
    let all = render(&clusters(rows));
    // The cursor needs the last line.
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

    fn row(name: &str, change: u64) -> WatchedRow {
        WatchedRow { cluster: Cluster { name: name.to_owned(), ..Cluster::default() }, change }
    }

    /// Renders a title, and per cluster as many lines as its name has letters.
    fn render(clusters: &[Cluster]) -> String {
        let lines = |cluster: &Cluster| format!("{}\n", cluster.name).repeat(cluster.name.len());
        format!("NAME\n{}", clusters.iter().map(lines).collect::<String>())
    }

    #[test]
    fn a_table_that_fits_is_complete_and_in_order() {
        let rows = [row("a", 0), row("b", 7), row("c", 2)];
        let rows: Vec<&WatchedRow> = rows.iter().collect();
        assert_eq!(fit_table(&rows, 5, render), "NAME\na\nb\nc\n");
        assert_eq!(fit_table(&rows, 0, render), "NAME\na\nb\nc\n", "the height is not known");
    }

    #[test]
    fn the_latest_changes_are_shown_if_not_all_clusters_fit() {
        let rows = [row("a", 0), row("b", 7), row("c", 2), row("d", 0)];
        let rows: Vec<&WatchedRow> = rows.iter().collect();
        assert_eq!(fit_table(&rows, 5, render), "NAME\nb\nc\n… and 2 more: -o json lists all\n");
        let wrapped = [row("a", 1), row("bb", 2), row("cc", 3)];
        let wrapped: Vec<&WatchedRow> = wrapped.iter().collect();
        assert_eq!(fit_table(&wrapped, 5, render), "NAME\ncc\ncc\n… and 2 more: -o json lists all\n");
    }
}
