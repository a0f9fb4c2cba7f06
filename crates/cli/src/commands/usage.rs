//! `muster usage`: shows the resources that clusters requested in a period of time.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use muster_core::time::Timestamp as Moment;
use muster_proto::v1alpha2::{GetAllUsageRequest, GetUsageRequest, Usage, UsageRow};
use muster_proto::wkt::Timestamp;
use serde_json::{Value, json};

use super::NamespaceFlag;
use super::logs::since;
use crate::connect::{Client, ServerFlags};
use crate::format::{self, Format, FormatFlag};
use crate::output::{self, message};
use crate::table::{self, Listed, moment};

/// Show what clusters requested over a time, deleted ones too
///
/// A cluster counts from its creation to its deletion, with the cpu, memory and accelerators that its nodes ask for by
/// their shapes; resizes are counted from when they ended. Amounts that no shape gives count as nothing.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster usage\n  muster usage --by project --since 7d\n  muster usage -A --by framework --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z -o json"
)]
pub(crate) struct UsageCommand {
    /// Group by
    #[arg(long, value_enum, default_value = "user")]
    by: Grouping,
    /// Start: a duration before now, or a time
    #[arg(long, value_name = "SINCE", default_value = "30d", value_parser = since::parse)]
    since: Timestamp,
    /// End, in the same form [default: now]
    #[arg(long, value_name = "UNTIL", value_parser = since::parse)]
    until: Option<Timestamp>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    /// Sum the clusters of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Grouping {
    /// The owners of clusters
    User,
    /// Projects
    Project,
    /// Frameworks
    Framework,
}

impl Grouping {
    const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Framework => "framework",
        }
    }
}

impl UsageCommand {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { by, since, until, namespace, all_namespaces, format, server } = self;
            let mut client = server.connect_to_existing().await?;
            let (since, by) = (Some(since), by.word().to_owned());
            let usage = if all_namespaces {
                let request = GetAllUsageRequest { since, until, by };
                let call = async |client: &Client| client.usage().get_all_usage(request.clone()).await;
                client.retry(call).await?.into_inner()
            } else {
                let namespace = namespace.resolve(&mut client).await?;
                let request = GetUsageRequest { namespace, since, until, by };
                let call = async |client: &Client| client.usage().get_usage(request.clone()).await;
                client.retry(call).await?.into_inner()
            };
            let format = format.format;
            if let Some(complete_since) = missing_before(&usage) {
                message!(
                    "note: clusters deleted before {} may be missing: the server stores history no longer",
                    moment(complete_since)
                );
            }
            let lines: Vec<UsageLine> = lines(&usage);
            match format {
                Format::Table | Format::Wide if !lines.is_empty() => {
                    Ok(output::print(&table::render(&lines, format == Format::Wide)))
                }
                _ => format::list(
                    format,
                    &lines,
                    "rows",
                    &with_zeros(&usage)?,
                    "No clusters existed in that time.",
                ),
            }
        })
    }
}

/// Returns the time before which clusters may be missing from the usage, since their history has been deleted; `None`
/// if the usage is complete.
fn missing_before(usage: &Usage) -> Option<Timestamp> {
    let (since, complete) = (usage.since?, usage.complete_since?);
    // The two times are taken a moment apart: a window exactly as long as the retention counts as complete.
    let minute = 60_000_000;
    let is_missing = Moment::from_micros(complete.micros()).since(Moment::from_micros(since.micros()));
    (is_missing.micros() > minute).then_some(complete)
}

/// Returns the usage as JSON in which sums that are zero are present.
fn with_zeros(usage: &Usage) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(usage)?;
    let rows = value.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten();
    rows.for_each(add_zeros);
    if let Some(usage) = value.as_object_mut() {
        add_zeros(usage.entry("total").or_insert_with(|| json!({})));
    }
    Ok(value)
}

fn add_zeros(row: &mut Value) {
    let Some(row) = row.as_object_mut() else { return };
    // A 64-bit number is a text in the JSON of the API.
    row.entry("clusters").or_insert_with(|| json!("0"));
    for sum in ["clusterHours", "nodeHours", "coreHours", "memoryGibHours", "gpuHours"] {
        row.entry(sum).or_insert_with(|| json!(0.0));
    }
}

/// A line of the table: one row of the usage, or the total.
struct UsageLine {
    name: String,
    row: UsageRow,
}

/// Returns a line for each row and, if there are several rows, a line for their total.
fn lines(usage: &Usage) -> Vec<UsageLine> {
    let line = |name: &str, row: &UsageRow| {
        let name = if name.is_empty() { "<none>" } else { name };
        UsageLine { name: name.to_owned(), row: row.clone() }
    };
    let total = usage.total.iter().filter(|_| usage.rows.len() > 1).map(|total| line("TOTAL", total));
    usage.rows.iter().map(|row| line(&row.name, row)).chain(total).collect()
}

impl Listed for UsageLine {
    fn titles(_: bool) -> Vec<&'static str> {
        vec!["NAME", "CLUSTERS", "CLUSTER-HOURS", "NODE-HOURS", "CORE-HOURS", "GIB-HOURS", "GPU-HOURS"]
    }

    fn line(&self, _: bool, _: Moment) -> Vec<String> {
        let UsageRow { clusters, cluster_hours, node_hours, core_hours, memory_gib_hours, gpu_hours, .. } =
            &self.row;
        let hours = [cluster_hours, node_hours, core_hours, memory_gib_hours, gpu_hours];
        let hours = hours.map(|hours| format!("{hours:.1}"));
        [self.name.clone(), clusters.to_string()].into_iter().chain(hours).collect()
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn usage(rows: &[&str], since: i64) -> Usage {
        let row = |name: &str| UsageRow {
            name: name.to_owned(),
            clusters: 1,
            cluster_hours: 0.25,
            core_hours: 12.04,
            ..UsageRow::default()
        };
        Usage {
            since: Some(Timestamp::from_micros(since)),
            complete_since: Some(Timestamp::from_micros(70 * DAY)),
            rows: rows.iter().map(|name| row(name)).collect(),
            total: Some(row("")),
            ..Usage::default()
        }
    }

    #[rstest]
    #[case(&[], &[])]
    #[case(&["ann"], &["ann"])]
    #[case(&["ann", ""], &["ann", "<none>", "TOTAL"])]
    fn several_rows_have_a_total(#[case] rows: &[&str], #[case] expected: &[&str]) {
        let lines = lines(&usage(rows, 0));
        assert_eq!(lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn zero_sums_are_in_the_json() {
        let value = with_zeros(&usage(&["ann"], 0)).expect("JSON");
        for row in [&value["rows"][0], &value["total"]] {
            assert_eq!((&row["nodeHours"], &row["gpuHours"]), (&json!(0.0), &json!(0.0)), "{row}");
            assert_eq!((&row["clusters"], &row["clusterHours"]), (&json!("1"), &json!(0.25)), "{row}");
        }
    }

    #[test]
    fn hours_have_one_decimal() {
        let line = lines(&usage(&["ann"], 0))[0].line(false, Moment::default());
        assert_eq!(line, ["ann", "1", "0.2", "0.0", "12.0", "0.0", "0.0"]);
    }

    #[rstest]
    #[case(70 * DAY - 1_000, false)]
    #[case(69 * DAY, true)]
    #[case(80 * DAY, false)]
    fn a_window_longer_than_the_retention_is_noted(#[case] since: i64, #[case] is_missing: bool) {
        assert_eq!(missing_before(&usage(&[], since)).is_some(), is_missing);
    }
}
