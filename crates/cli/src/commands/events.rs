//! `muster events`: lists the events of a cluster.

mod follow;

use std::process::ExitCode;

use clap::Parser;
use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::v1alpha2::{Event, ListEventsRequest, ListEventsResponse};

use super::{ClusterFlags, PAGE, count, pages};
use crate::connect::Client;
use crate::format::{self, Format, FormatFlag};
use crate::output::{self, harmless};
use crate::table;

/// List the events of a cluster, oldest first
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster events fred\n  muster events fred --full\n  muster events fred -f"
)]
pub(crate) struct Events {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// Show all lines of each message below the event
    #[arg(long)]
    full: bool,
    /// Keep printing new events until the cluster is deleted
    #[arg(short = 'f', long)]
    follow: bool,
    #[command(flatten)]
    format: FormatFlag,
}

impl Events {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self {
                cluster: ClusterFlags { name, namespace, among, server },
                full,
                follow,
                format: FormatFlag { format },
            } = self;
            let mut client = server.connect_to_existing().await?;
            let namespace = namespace.resolve(&mut client).await?;
            let (framework, provider) = among.request_fields();
            let of_cluster = ListEventsRequest {
                name: name.clone(),
                namespace,
                framework,
                provider,
                ..ListEventsRequest::default()
            };
            let events = pages(async |page_token| {
                let request = ListEventsRequest {
                    sort_by: "at".to_owned(),
                    page_size: PAGE,
                    page_token,
                    ..of_cluster.clone()
                };
                let call = async |client: &Client| client.clusters().list_events(request.clone()).await;
                let answer = client.retry(call).await?.into_inner();
                Ok((answer.events, answer.next_page_token))
            })
            .await?;
            if follow {
                return follow::follow(&mut client, of_cluster, events, format, full).await;
            }
            if full && format == Format::Table && !events.is_empty() {
                let now = SystemClock.now();
                return Ok(output::print(
                    &events.iter().map(|event| format_with_message(event, now)).collect::<String>(),
                ));
            }
            let message = ListEventsResponse {
                total_size: count(events.len()),
                events,
                ..ListEventsResponse::default()
            };
            format::list(format, &message.events, "events", &message, &format!("no events of '{name}' yet"))
        })
    }
}

/// Formats an event with all lines of its message below it.
fn format_with_message(event: &Event, now: Timestamp) -> String {
    let age = table::age(event.at, now);
    let words = [&age, &event.level, &event.object_name, &event.reason, &event.phase];
    let words: Vec<&str> = words.into_iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let mut text = format!("{}\n", harmless(&words.join("  ")));
    for line in harmless(&table::event_message(event)).lines() {
        text.push_str(format!("    {line}").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use muster_proto::wkt;

    use super::*;

    #[test]
    fn all_lines_of_a_message_are_below_its_event() {
        let event = Event {
            at: Some(wkt::Timestamp { seconds: 40, nanos: 0 }),
            level: "WARN".to_owned(),
            object_name: "fred-worker-1".to_owned(),
            reason: "NodeLost".to_owned(),
            message: "it ended with 1; its last lines:\n  File \"a.py\"\n\nKeyError".to_owned(),
            ..Event::default()
        };
        let shown = format_with_message(&event, Timestamp::from_micros(100_000_000));
        let expected = "60s  WARN  fred-worker-1  NodeLost\n    it ended with 1; its last lines:\n      File \
                        \"a.py\"\n\n    KeyError\n";
        assert_eq!(shown, expected);
    }
}
