//! `muster update`: changes properties of a cluster and waits until its nodes have them.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::str::FromStr as _;

use clap::Parser;
use muster_proto::v1alpha2::{
    Cluster, ClusterSpec, HeadGroupSpec, Shape, UpdateClusterRequest, UpdatePreview, WorkerGroupSpec,
};
use muster_proto::wkt::{Duration, FieldMask};

use super::{ChangeFlags, one_cluster, python, request_id, shape};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::format;
use crate::output::{self, message};

/// Change the shape, image, variables, labels or limits of a cluster
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster update fred --shape memory=8Gi\n  muster update fred --env LEVEL=debug --env OLD-\n  muster update fred --idle-timeout none\n  muster update fred --image ./venv/bin/python --no-restart\n  muster update fred --restart-workers"
)]
pub(crate) struct Update {
    /// Name of the cluster
    #[arg(add = crate::complete::clusters())]
    name: String,
    #[command(flatten)]
    changes: UpdateFlags,
    #[command(flatten)]
    restart: RestartFlags,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Flags for which running nodes are replaced, and whether to ask first.
#[derive(Debug, Clone, Copy, Parser)]
struct RestartFlags {
    /// Replace workers that have an older recipe, one after the other, on this machine once their tasks have ended; keep the
    /// head
    #[arg(long, conflicts_with = "no_restart")]
    restart_workers: bool,
    /// Replace no running node: the change applies to nodes that are started later
    #[arg(long)]
    no_restart: bool,
    /// Do not ask for confirmation before nodes are replaced
    #[arg(short = 'y', long)]
    yes: bool,
}

impl RestartFlags {
    /// Returns the value of the request's field `restart`.
    const fn scope(self) -> &'static str {
        match self {
            Self { restart_workers: true, .. } => "workers",
            Self { no_restart: true, .. } => "never",
            Self { .. } => "",
        }
    }
}

/// Flags with the new values.
#[derive(Debug, Default, Parser)]
struct UpdateFlags {
    /// Resources of each worker: the name of a shape, or the amounts that change, such as memory=8Gi
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse, add = crate::complete::shapes())]
    shape: Option<Shape>,
    /// Resources of the head, in the same form
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse, add = crate::complete::shapes())]
    head_shape: Option<Shape>,
    /// Container image of head and workers; on the local provider their Python interpreter
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Minimum number of workers of a group
    #[arg(long, value_name = "N", value_parser = super::parse_count)]
    min: Option<i32>,
    /// Maximum number of workers of a group; `none` for no limit
    #[arg(long, value_name = "N", value_parser = parse_max)]
    max: Option<MaxWorkers>,
    /// The worker group whose shape, image or bounds change [default: all groups]
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Environment variable of all nodes, as KEY=VALUE, or KEY- to remove it; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_entry)]
    env: Vec<MapEntry>,
    /// A label, in the same form
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_entry)]
    label: Vec<MapEntry>,
    /// An annotation, in the same form
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_entry)]
    annotation: Vec<MapEntry>,
    /// Delete the cluster after this long without use, such as 30m or 2h; `none` for never
    #[arg(long, value_name = "DURATION", value_parser = parse_limit)]
    idle_timeout: Option<LifeLimit>,
    /// Delete the cluster this long after its creation; `none` for never
    #[arg(long, value_name = "DURATION", value_parser = parse_limit)]
    max_lifetime: Option<LifeLimit>,
}

/// A new entry of a map; without a value, the entry is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MapEntry {
    key: String,
    value: Option<String>,
}

/// The maximum size of a group; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MaxWorkers(Option<i32>);

/// An idle timeout or lifetime; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct LifeLimit(Option<Duration>);

fn parse_entry(text: &str) -> Result<MapEntry, String> {
    let parsed = match text.split_once('=') {
        Some((key, value)) => Some((key, Some(value.to_owned()))),
        None => text.strip_suffix('-').map(|key| (key, None)),
    };
    match parsed.filter(|(key, _)| !key.is_empty()) {
        Some((key, value)) => Ok(MapEntry { key: key.to_owned(), value }),
        None => Err(format!("'{text}' is not an entry: write KEY=VALUE, or KEY- to remove it")),
    }
}

fn parse_max(text: &str) -> Result<MaxWorkers, String> {
    if text == "none" {
        return Ok(MaxWorkers(None));
    }
    let number = super::parse_count(text).map_err(|why| format!("{why}, or `none`"))?;
    Ok(MaxWorkers(Some(number)))
}

fn parse_limit(text: &str) -> Result<LifeLimit, String> {
    if text == "none" {
        return Ok(LifeLimit(None));
    }
    Duration::from_str(text).map(|limit| LifeLimit(Some(limit))).map_err(|error| error.to_string())
}

impl Update {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, mut changes, restart, flags } = self;
            let flags_format = flags.format.format;
            let mut found = flags.find(&name).await?;
            let present = &found.cluster;
            if let Some(image) = changes.image.take() {
                let Cluster { provider, framework, .. } = present;
                changes.image = python::resolve(&found.client, provider, framework, Some(image)).await?;
            }
            let missing = changes.remove_missing(present);
            for entry in &missing {
                message!("{name}: there is no {entry} to remove");
            }
            let may_be_empty = restart.restart_workers || !missing.is_empty();
            let (cluster, update_mask) = changes.apply(present, may_be_empty)?;
            if update_mask.paths.is_empty() && !restart.restart_workers {
                message!("{name}: nothing was changed");
                return format::one(flags_format, present, |wide| one_cluster::cluster(present, &[], wide));
            }
            let request = UpdateClusterRequest {
                id: present.id.clone(),
                cluster: Some(cluster),
                update_mask: Some(update_mask),
                restart: restart.scope().to_owned(),
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..UpdateClusterRequest::default()
            };
            let preview = async |client: &Client| client.clusters().preview_update(request.clone()).await;
            let preview = found.client.retry(preview).await?.into_inner();
            confirm_replacement(&found.cluster.name, &preview, restart)?;
            let change = async |client: &Client| client.clusters().update_cluster(request.clone()).await;
            Box::pin(found.carry_out(change)).await
        })
    }
}

/// Prints which nodes the update replaces; on a terminal, asks for confirmation.
fn confirm_replacement(name: &str, preview: &UpdatePreview, restart: RestartFlags) -> Result<(), Failure> {
    if let Some(what) = describe_replacement(preview) {
        if restart.yes || !std::io::stdin().is_terminal() {
            message!("{name}: {what}");
        } else if !output::confirm(&format!("{name}: {what}. Continue?")).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot read the answer: {error}")).hint("confirm with --yes")
        })? {
            return Err(Failure::new(Exit::Refused, "nothing was changed")
                .hint("--no-restart changes only nodes that are started later"));
        }
    }
    if !preview.outdated_nodes.is_empty() {
        let nodes = preview.outdated_nodes.join(", ");
        message!("{name}: these nodes keep the older recipe until they are restarted: {nodes}");
    }
    Ok(())
}

/// Describes which nodes an update replaces; `None` if none.
fn describe_replacement(
    UpdatePreview { replaced_nodes: nodes, replaces_head, .. }: &UpdatePreview,
) -> Option<String> {
    let names = nodes.join(", ");
    let workers = match nodes.len().saturating_sub(usize::from(*replaces_head)) {
        0 => String::new(),
        1 => "1 worker".to_owned(),
        count => format!("{count} workers"),
    };
    Some(match (replaces_head, workers.as_str()) {
        (false, "") => return None,
        (false, workers) => format!("replaces {workers}, one after the other ({names})"),
        (true, "") => format!("replaces the head ({names})"),
        (true, workers) => format!("replaces the head and {workers} ({names}); running work is lost"),
    })
}

impl UpdateFlags {
    /// Leaves out the removals of variables, labels and annotations that the cluster does not have, and returns them.
    fn remove_missing(&mut self, present: &Cluster) -> Vec<String> {
        let maps = [
            ("variable", &mut self.env, &present.envs),
            ("label", &mut self.label, &present.labels),
            ("annotation", &mut self.annotation, &present.annotations),
        ];
        let mut missing = Vec::new();
        for (what, entries, map) in maps {
            entries.retain(|MapEntry { key, value }| {
                let is_known =
                    map.contains_key(key) || (what == "variable" && present.envs_from.contains_key(key));
                let has_effect = value.is_some() || is_known;
                if !has_effect {
                    missing.push(format!("{what} '{key}'"));
                }
                has_effect
            });
        }
        missing
    }

    /// Returns the new values and the mask of changed fields. The mask may be empty if `--restart-workers` is given.
    fn apply(self, present: &Cluster, may_be_empty: bool) -> Result<(Cluster, FieldMask), Failure> {
        let Self {
            shape,
            head_shape,
            image,
            min,
            max,
            group,
            env,
            label,
            annotation,
            idle_timeout,
            max_lifetime,
        } = self;
        let mut paths = Vec::new();
        let mut cluster = Cluster::default();
        let mut head = HeadGroupSpec::default();
        let mut workers = WorkerGroupSpec::default();
        let in_head = |field: &str| format!("cluster_spec.head_group_spec.{field}");
        let in_groups = |field: &str| format!("cluster_spec.worker_group_spec.{field}");
        if let Some(shape) = head_shape {
            paths.extend(given_parts(&shape).map(|part| in_head(&part)));
            head.shape = Some(shape);
        }
        if let Some(shape) = shape {
            paths.extend(given_parts(&shape).map(|part| in_groups(&part)));
            workers.shape = Some(shape);
        }
        if let Some(image) = image {
            paths.push(in_groups("image"));
            if group.is_none() {
                paths.push(in_head("image"));
                head.image.clone_from(&image);
            }
            workers.image = image;
        }
        if let Some(min) = min {
            paths.push(in_groups("min_replicas"));
            workers.min_replicas = Some(min);
        }
        if let Some(MaxWorkers(max)) = max {
            paths.push(in_groups("max_replicas"));
            workers.max_replicas = max;
        }
        let maps = [
            ("envs", env, &mut cluster.envs),
            ("labels", label, &mut cluster.labels),
            ("annotations", annotation, &mut cluster.annotations),
        ];
        for (field, entries, map) in maps {
            for MapEntry { key, value } in entries {
                paths.push(format!("{field}.{key}"));
                map.extend(value.map(|value| (key, value)));
            }
        }
        if let Some(LifeLimit(limit)) = idle_timeout {
            paths.push("idle_timeout".to_owned());
            cluster.idle_timeout = limit;
        }
        if let Some(LifeLimit(limit)) = max_lifetime {
            paths.push("max_lifetime".to_owned());
            cluster.max_lifetime = limit;
        }
        if paths.is_empty() && !may_be_empty {
            return Err(Failure::new(Exit::Usage, "no change is given")
                .hint("`muster update --help` lists what can be changed"));
        }
        let concerns_groups = paths.iter().any(|path| path.starts_with("cluster_spec.worker_group_spec"));
        let worker_group_spec =
            if concerns_groups { changed_groups(present, group.as_deref(), &workers) } else { Vec::new() };
        cluster.cluster_spec =
            Some(ClusterSpec { head_group_spec: Some(head), worker_group_spec, ..ClusterSpec::default() });
        Ok((cluster, FieldMask { paths }))
    }
}

/// Returns the groups that change, with the new values. The server refuses a group that does not exist.
fn changed_groups(present: &Cluster, group: Option<&str>, changed: &WorkerGroupSpec) -> Vec<WorkerGroupSpec> {
    let named = |name: &str| WorkerGroupSpec { group_name: name.to_owned(), ..changed.clone() };
    match group {
        Some(name) => vec![named(name)],
        None => {
            let groups = present.cluster_spec.iter().flat_map(|spec| &spec.worker_group_spec);
            groups.map(|group| named(&group.group_name)).collect()
        }
    }
}

/// Returns the field paths of the given parts of a shape.
fn given_parts(shape: &Shape) -> impl Iterator<Item = String> + use<> {
    let given = [
        ("name", !shape.name.is_empty()),
        ("cpu", !shape.cpu.is_empty()),
        ("memory", !shape.memory.is_empty()),
        ("gpu", shape.gpu.is_some()),
    ];
    given.into_iter().filter(|(_, given)| *given).map(|(part, _)| format!("shape.{part}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        changes: UpdateFlags,
    }

    fn present() -> Cluster {
        let group =
            |name: &str| WorkerGroupSpec { group_name: name.to_owned(), ..WorkerGroupSpec::default() };
        let spec = ClusterSpec { worker_group_spec: vec![group("a"), group("b")], ..ClusterSpec::default() };
        Cluster { cluster_spec: Some(spec), ..Cluster::default() }
    }

    fn applied(flags: &[&str]) -> Result<(Cluster, Vec<String>), Failure> {
        let line = Line::parse_from([&["update"], flags].concat());
        line.changes.apply(&present(), false).map(|(cluster, mask)| (cluster, mask.paths))
    }

    #[rstest]
    #[case(&["--env", "A=1", "--env", "B-"], &["envs.A", "envs.B"])]
    #[case(&["--label", "team=x", "--idle-timeout", "none"], &["labels.team", "idle_timeout"])]
    #[case(&["--shape", "memory=8Gi"], &["cluster_spec.worker_group_spec.shape.memory"])]
    #[case(&["--head-shape", "small"], &["cluster_spec.head_group_spec.shape.name"])]
    #[case(
        &["--image", "i"],
        &["cluster_spec.worker_group_spec.image", "cluster_spec.head_group_spec.image"]
    )]
    #[case(&["--image", "i", "--group", "a"], &["cluster_spec.worker_group_spec.image"])]
    #[case(
        &["--min", "1", "--max", "none"],
        &["cluster_spec.worker_group_spec.min_replicas", "cluster_spec.worker_group_spec.max_replicas"]
    )]
    fn only_given_fields_change(#[case] flags: &[&str], #[case] expected: &[&str]) {
        let (_, paths) = applied(flags).expect("an update");
        assert_eq!(paths, expected);
    }

    #[test]
    fn removals_of_what_the_cluster_does_not_have_are_left_out() {
        let mut present = present();
        present.envs.insert("A".to_owned(), "1".to_owned());
        present.labels.insert("team".to_owned(), "x".to_owned());
        let flags =
            ["update", "--env", "A-", "--env", "NOPE-", "--env", "B=", "--label", "NO-", "--label", "team-"];
        let mut changes = Line::parse_from(flags).changes;
        assert_eq!(changes.remove_missing(&present), ["variable 'NOPE'", "label 'NO'"]);
        let (_, mask) = changes.apply(&present, true).expect("an update");
        assert_eq!(mask.paths, ["envs.A", "envs.B", "labels.team"]);
        let mut changes = Line::parse_from(["update", "--annotation", "NOPE-"]).changes;
        assert_eq!(changes.remove_missing(&present), ["annotation 'NOPE'"]);
        assert_eq!(changes.apply(&present, true).expect("an update").1.paths, Vec::<String>::new());
    }

    #[test]
    fn all_groups_change_unless_one_is_named() {
        let names = |flags: &[&str]| -> Vec<String> {
            let spec = applied(flags).expect("an update").0.cluster_spec.unwrap_or_default();
            spec.worker_group_spec.into_iter().map(|group| group.group_name).collect()
        };
        assert_eq!(names(&["--max", "3"]), ["a", "b"]);
        assert_eq!(names(&["--max", "3", "--group", "b"]), ["b"]);
        assert_eq!(names(&["--label", "a=b"]), Vec::<String>::new());
    }

    #[rstest]
    #[case::nothing(&[], false, None)]
    #[case::workers(&["w1", "w2"], false, Some("replaces 2 workers, one after the other (w1, w2)"))]
    #[case::head(&["h"], true, Some("replaces the head (h)"))]
    #[case::all(&["h", "w1"], true, Some("replaces the head and 1 worker (h, w1); running work is lost"))]
    fn replaced_nodes_are_named(
        #[case] nodes: &[&str],
        #[case] replaces_head: bool,
        #[case] words: Option<&str>,
    ) {
        let replaced_nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
        let preview = UpdatePreview { replaced_nodes, replaces_head, outdated_nodes: Vec::new() };
        assert_eq!(describe_replacement(&preview).as_deref(), words);
    }

    #[test]
    fn an_update_without_changes_is_refused() {
        assert_eq!(applied(&[]).expect_err("nothing is given").exit, Exit::Usage);
        assert!(parse_entry("A").is_err_and(|why| why.contains("KEY=VALUE, or KEY- to remove it")));
    }
}
