//! `muster events -f`: prints events as they occur.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::v1alpha2::{Event, ListEventsRequest};

use super::format_with_message;
use crate::commands::deleted::{self, is_deletion};
use crate::connect::Client;
use crate::failure::Failure;
use crate::format::{Format, yaml};
use crate::output;
use crate::table::StreamedTable;

/// Interval at which new events are listed.
const PERIOD: Duration = Duration::from_secs(1);

/// Page size of the lists.
const LATEST: i32 = 100;

/// Prints the first events and then new ones, until the cluster is deleted.
pub(super) async fn follow(
    client: &mut Client,
    request: ListEventsRequest,
    first: Vec<Event>,
    format: Format,
    full: bool,
) -> Result<ExitCode> {
    let mut printer = EventPrinter { format, full, lines: StreamedTable::default() };
    if !printer.begin(&first) {
        return Ok(ExitCode::FAILURE);
    }
    let mut request = ListEventsRequest { sort_by: "-at".to_owned(), page_size: LATEST, ..request };
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut events = first;
    loop {
        for event in &events {
            if !printer.print(event)? {
                return Ok(ExitCode::FAILURE);
            }
            // Follow by id: another cluster may get the name later.
            if request.id.is_empty() && !event.cluster_id.is_empty() {
                event.cluster_id.clone_into(&mut request.id);
                request.name.clear();
                request.namespace.clear();
            }
        }
        if let Some(end) = events.iter().find(|event| is_deletion(event)) {
            deleted::report(&end.object_name);
            return Ok(ExitCode::SUCCESS);
        }
        known.extend(events.into_iter().map(|event| event.id));
        tokio::time::sleep(PERIOD).await;
        events = list_new(client, &request, &known).await?;
    }
}

/// Lists events that are not known yet, oldest first. Reads older pages until one has a known event.
async fn list_new(
    client: &mut Client,
    request: &ListEventsRequest,
    known: &BTreeSet<String>,
) -> Result<Vec<Event>, Failure> {
    let mut events = Vec::new();
    let mut request = request.clone();
    loop {
        let call = async |client: &Client| client.clusters().list_events(request.clone()).await;
        let answer = client.retry(call).await?.into_inner();
        let count = answer.events.len();
        let new: Vec<Event> = answer.events.into_iter().filter(|event| !known.contains(&event.id)).collect();
        let reaches_known = new.len() < count;
        events.extend(new);
        if reaches_known || answer.next_page_token.is_empty() {
            events.reverse();
            return Ok(events);
        }
        request.page_token = answer.next_page_token;
    }
}

struct EventPrinter {
    format: Format,
    full: bool,
    lines: StreamedTable,
}

impl EventPrinter {
    /// Prints the titles, as wide as the first events; false if the output is closed.
    fn begin(&mut self, first: &[Event]) -> bool {
        match self.format {
            Format::Table if self.full => true,
            Format::Table | Format::Wide => {
                self.lines.make_room(first, self.format == Format::Wide);
                let titles = self.lines.titles::<Event>(self.format == Format::Wide);
                output::print(&titles) == ExitCode::SUCCESS
            }
            Format::Json | Format::Yaml | Format::Name => true,
        }
    }

    fn print(&mut self, event: &Event) -> Result<bool> {
        let text = match self.format {
            Format::Json => format!("{}\n", serde_json::to_string(event)?),
            Format::Yaml => format!("---\n{}", yaml(event)?),
            Format::Name => format!("{}\n", event.id),
            Format::Table if self.full => format_with_message(event, SystemClock.now()),
            Format::Table | Format::Wide => self.lines.row(event, self.format == Format::Wide),
        };
        Ok(output::print(&text) == ExitCode::SUCCESS)
    }
}
