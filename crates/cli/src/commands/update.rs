//! `muster update`: change what a cluster is, and wait until its nodes are so.

use std::process::ExitCode;
use std::str::FromStr as _;

use clap::Parser;
use muster_proto::v1alpha2::{
    Cluster, ClusterSpec, HeadGroupSpec, Shape, UpdateClusterRequest, WorkerGroupSpec,
};
use muster_proto::wkt::{Duration, FieldMask};

use super::{ChangeFlags, python, request_id, shape};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output;

/// Change the shape, image, variables, labels or limits of a cluster
#[derive(Debug, Parser)]
pub(crate) struct Update {
    /// Which cluster
    name: String,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// What changes; everything else stays as it is.
#[derive(Debug, Default, Parser)]
struct Changes {
    /// What each worker is given: the name of a shape, or the amounts that change, such as memory=8Gi
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse)]
    shape: Option<Shape>,
    /// What the head is given, likewise
    #[arg(long, value_name = "SHAPE", value_parser = shape::parse)]
    head_shape: Option<Shape>,
    /// The container image, or on the local provider the Python interpreter, of head and workers
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The least number of workers of a group
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    min: Option<i32>,
    /// The largest number of workers of a group; `none` for no limit
    #[arg(long, value_name = "N", value_parser = largest)]
    max: Option<Largest>,
    /// The worker group whose shape, image or bounds change; otherwise all
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// An environment variable of all nodes, as KEY=VALUE, or KEY- to remove it; again for every further one
    #[arg(long, value_name = "KEY=VALUE", value_parser = entry)]
    env: Vec<Entry>,
    /// A label, likewise
    #[arg(long, value_name = "KEY=VALUE", value_parser = entry)]
    label: Vec<Entry>,
    /// An annotation, likewise
    #[arg(long, value_name = "KEY=VALUE", value_parser = entry)]
    annotation: Vec<Entry>,
    /// Delete it when it has not been used for so long, such as 30m or 2h; `none` for never
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    idle_timeout: Option<Limit>,
    /// Delete it when it has been there for so long; `none` for never
    #[arg(long, value_name = "DURATION", value_parser = limit)]
    max_lifetime: Option<Limit>,
}

/// An entry of a map; without a value it is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: String,
    value: Option<String>,
}

/// The largest size of a group; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Largest(Option<i32>);

/// A limit of a cluster's life; none is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Limit(Option<Duration>);

fn entry(text: &str) -> Result<Entry, String> {
    let parsed = match text.split_once('=') {
        Some((key, value)) => Some((key, Some(value.to_owned()))),
        None => text.strip_suffix('-').map(|key| (key, None)),
    };
    match parsed.filter(|(key, _)| !key.is_empty()) {
        Some((key, value)) => Ok(Entry { key: key.to_owned(), value }),
        None => Err(format!("'{text}' is no entry: KEY=VALUE, or KEY- to remove it, is expected")),
    }
}

fn largest(text: &str) -> Result<Largest, String> {
    if text == "none" {
        return Ok(Largest(None));
    }
    let number = text.parse::<i32>().ok().filter(|number| *number >= 0);
    number
        .map(|number| Largest(Some(number)))
        .ok_or_else(|| format!("'{text}' is no number of workers, and not `none`"))
}

fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    Duration::from_str(text).map(|limit| Limit(Some(limit))).map_err(|error| error.to_string())
}

impl Update {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { name, mut changes, flags } = self;
            let found = flags.find(&name).await?;
            let present = &found.cluster;
            if let Some(image) = changes.image.take() {
                let Cluster { provider, framework, .. } = present;
                changes.image = python::resolve(&found.client, provider, framework, Some(image)).await?;
            }
            let (cluster, update_mask) = changes.apply(present)?;
            let request = UpdateClusterRequest {
                id: present.id.clone(),
                cluster: Some(cluster),
                update_mask: Some(update_mask),
                wait_for: "accepted".to_owned(),
                request_id: request_id(),
                ..UpdateClusterRequest::default()
            };
            let change = async |client: &Client| client.clusters().update_cluster(request.clone()).await;
            Box::pin(found.carry_out(change)).await
        })
    }
}

impl Changes {
    /// The new values, and the fields that have them.
    fn apply(self, present: &Cluster) -> Result<(Cluster, FieldMask), Failure> {
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
            paths.extend(parts(&shape).map(|part| in_head(&part)));
            head.shape = Some(shape);
        }
        if let Some(shape) = shape {
            paths.extend(parts(&shape).map(|part| in_groups(&part)));
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
        if let Some(Largest(max)) = max {
            paths.push(in_groups("max_replicas"));
            workers.max_replicas = max;
        }
        let maps = [
            ("envs", env, &mut cluster.envs),
            ("labels", label, &mut cluster.labels),
            ("annotations", annotation, &mut cluster.annotations),
        ];
        for (field, entries, map) in maps {
            for Entry { key, value } in entries {
                paths.push(format!("{field}.{key}"));
                map.extend(value.map(|value| (key, value)));
            }
        }
        if let Some(Limit(limit)) = idle_timeout {
            paths.push("idle_timeout".to_owned());
            cluster.idle_timeout = limit;
        }
        if let Some(Limit(limit)) = max_lifetime {
            paths.push("max_lifetime".to_owned());
            cluster.max_lifetime = limit;
        }
        if paths.is_empty() {
            return Err(Failure::new(Exit::Usage, "nothing to change is given")
                .hint("see `muster update --help` for what can be changed"));
        }
        let concerns_groups = paths.iter().any(|path| path.starts_with("cluster_spec.worker_group_spec"));
        let worker_group_spec =
            if concerns_groups { changed_groups(present, group.as_deref(), &workers) } else { Vec::new() };
        cluster.cluster_spec =
            Some(ClusterSpec { head_group_spec: Some(head), worker_group_spec, ..ClusterSpec::default() });
        Ok((cluster, FieldMask { paths }))
    }
}

/// The groups that change, each with the same new values; a group that does not exist is left to the server.
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

/// The parts of a shape that are given.
fn parts(shape: &Shape) -> impl Iterator<Item = String> + use<> {
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
        changes: Changes,
    }

    fn present() -> Cluster {
        let group =
            |name: &str| WorkerGroupSpec { group_name: name.to_owned(), ..WorkerGroupSpec::default() };
        let spec = ClusterSpec { worker_group_spec: vec![group("a"), group("b")], ..ClusterSpec::default() };
        Cluster { cluster_spec: Some(spec), ..Cluster::default() }
    }

    fn applied(flags: &[&str]) -> Result<(Cluster, Vec<String>), Failure> {
        let line = Line::parse_from([&["update"], flags].concat());
        line.changes.apply(&present()).map(|(cluster, mask)| (cluster, mask.paths))
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
    fn only_what_is_given_changes(#[case] flags: &[&str], #[case] expected: &[&str]) {
        let (_, paths) = applied(flags).expect("an update");
        assert_eq!(paths, expected);
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

    #[test]
    fn nothing_to_change_is_refused() {
        assert_eq!(applied(&[]).expect_err("nothing is given").exit, Exit::Usage);
        assert!(entry("A").is_err_and(|why| why.contains("KEY=VALUE, or KEY- to remove it")));
    }
}
