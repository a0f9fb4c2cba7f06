//! `muster get`: shows one cluster, or lists the clusters of a namespace.

mod deprecated;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::{Cluster, ListAppsRequest};

use super::select::{FilterFlags, list};
use super::{AmongFlags, NamespaceFlag, app, find, find_by_id, one_cluster, watch};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, Format, FormatFlag};
use crate::output;
use crate::table::{self, InNamespace};

/// Show a cluster, or list clusters
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster get\n  muster get fred -o wide\n  muster get -A -l team=x --state ACTIVE --sort created_at"
)]
pub(crate) struct Get {
    /// Name of the cluster [default: all clusters of the namespace]
    #[arg(add = crate::complete::clusters())]
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    /// List the clusters of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// List only the clusters that this app uses: a name, kind/name such as deploy/bob, or the name of a pod
    #[arg(long, value_name = "APP", conflicts_with_all = ["all_namespaces", "watch"])]
    app: Option<String>,
    /// Print the columns of the Oshinko CLI
    #[arg(short = 'd', long, conflicts_with_all = ["watch", "format"])]
    deprecated: bool,
    #[command(flatten)]
    filter: FilterFlags,
    /// Keep running and show every change, of one cluster until it is deleted
    #[arg(short = 'w', long, conflicts_with_all = ["label", "state", "mine", "sort"])]
    watch: bool,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Get {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self {
                name,
                namespace,
                among,
                all_namespaces,
                app,
                deprecated,
                filter,
                watch,
                format,
                server,
            } = self;
            let format = format.format;
            let is_list = name.is_none() && app.is_none() && !deprecated && !watch;
            let found = match server.find_existing().await? {
                Some(client) => client,
                None if is_list => {
                    let nothing = format!(
                        "No clusters found: no server has run with {}. Create one with `muster create NAME`.",
                        server.location_text()
                    );
                    return format::array(format, &Vec::<Cluster>::new(), &nothing);
                }
                None => server.connect_to_existing().await?,
            };
            let mut client = found;
            let namespace = namespace.resolve(&mut client).await?;
            let one = match &name {
                Some(name) => Some(find(&mut client, &namespace, name, &among).await?),
                None => None,
            };
            if let Some(app) = app {
                let used = used_by(&mut client, &namespace, &app, name.as_deref()).await?;
                if deprecated {
                    return Ok(output::print(&deprecated::lines(&used)));
                }
                let used: Vec<InNamespace> = used.into_iter().map(InNamespace).collect();
                return match (&name, used.as_slice()) {
                    (Some(_), [cluster]) => format::one(format, cluster, |wide| table::render(&used, wide)),
                    _ => format::array(format, &used, ""),
                };
            }
            if deprecated {
                let clusters = match one {
                    Some(cluster) => vec![cluster],
                    None => list(&mut client, Some(&namespace), &among, &filter).await?,
                };
                return Ok(output::print(&deprecated::lines(&clusters)));
            }
            if watch {
                let namespace = match &one {
                    Some(cluster) => cluster.namespace.clone(),
                    None if all_namespaces => String::new(),
                    None => namespace,
                };
                return Box::pin(watch::follow(&mut client, namespace, one, format)).await;
            }
            if let Some(cluster) = one {
                let logs = match format {
                    Format::Wide => one_cluster::logs(&mut client, &cluster).await?,
                    _ => Vec::new(),
                };
                return format::one(format, &cluster, |wide| one_cluster::cluster(&cluster, &logs, wide));
            }
            let within = (!all_namespaces).then_some(namespace.as_str());
            let clusters = list(&mut client, within, &among, &filter).await?;
            let nothing = if filter.excludes() || among.are_given() {
                "No matching clusters found.".to_owned()
            } else if all_namespaces {
                "No clusters found. Create one with `muster create NAME`.".to_owned()
            } else {
                format!(
                    "No clusters found. Namespace '{namespace}' has none: create one with `muster create NAME`, or list \
                     those of all namespaces with -A."
                )
            };
            if !all_namespaces {
                let clusters: Vec<InNamespace> = clusters.into_iter().map(InNamespace).collect();
                return format::array(format, &clusters, &nothing);
            }
            match format {
                // Names alone are ambiguous across namespaces.
                Format::Name => {
                    let name = |cluster: &Cluster| format!("{}/{}\n", cluster.namespace, cluster.name);
                    Ok(output::print(&clusters.iter().map(name).collect::<String>()))
                }
                _ => format::array(format, &clusters, &nothing),
            }
        })
    }
}

/// Finds the clusters that an app uses; with `name`, only the one of that name.
async fn used_by(
    client: &mut Client,
    namespace: &str,
    app: &str,
    name: Option<&str>,
) -> Result<Vec<Cluster>, Failure> {
    let request = ListAppsRequest {
        namespace: namespace.to_owned(),
        app: app.to_owned(),
        ..ListAppsRequest::default()
    };
    // Without the name of an app, the list would have the clusters of all apps.
    let apps = if app.is_empty() { Vec::new() } else { app::list(client, request).await? };
    let mut ids: Vec<&str> = Vec::new();
    for used in apps.iter().flat_map(|app| &app.uses) {
        if name.is_none_or(|name| name == used.cluster) && !ids.contains(&used.cluster_id.as_str()) {
            ids.push(&used.cluster_id);
        }
    }
    if ids.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("no cluster found for app '{app}'")));
    }
    let mut clusters = Vec::with_capacity(ids.len());
    for id in ids {
        clusters.push(find_by_id(client, id).await?);
    }
    Ok(clusters)
}
