//! `muster down`: deletes the clusters of this machine and stops the server.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::{Cluster, InfoResponse, ShutdownRequest};

use super::delete::submit;
use super::select::{FilterFlags, list, who_am_i};
use super::{AmongFlags, is_on_kubernetes};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure, connection_lost};
use crate::output::{self, message};
use crate::wait::WaitFlags;

/// Delete the clusters that run on this machine and stop the server; clusters on Kubernetes stay
#[derive(Debug, Parser)]
pub(crate) struct Down {
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    yes: bool,
    /// Stop the server only; its clusters keep running, and the next command starts a server for them
    #[arg(long)]
    keep_clusters: bool,
    #[command(flatten)]
    server: ServerFlags,
}

impl Down {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { yes, keep_clusters, server } = self;
            let mut client = match server.find().await? {
                Some(client) => client,
                // Clusters outlive a server, and only a server can delete them.
                None if server.has_clusters() && !keep_clusters => server.connect().await?,
                None => {
                    return Ok(output::print(&format!("no server runs with {}\n", server.location_text())));
                }
            };
            if !server.owns(&client) {
                let what = format!(
                    "the server at {} is not the one of this data folder: `muster down` stops only that one",
                    server.location_text()
                );
                let hint = "stop it where it was started; `muster delete NAME` deletes a cluster";
                return Err(Failure::new(Exit::Refused, what).hint(hint).into());
            }
            let info = may_stop(&mut client).await?;
            if keep_clusters {
                stop(&mut client).await?;
                return Ok(output::print("server stopped; its clusters keep running\n"));
            }
            let clusters = of_this_machine(&mut client, &info).await?;
            if !is_confirmed(&clusters, yes)? {
                message!("nothing was deleted, and the server keeps running");
                return Ok(Exit::Refused.into());
            }
            delete(&mut client, &clusters).await?;
            let late = of_this_machine(&mut client, &info).await?;
            if !late.is_empty() {
                let what = format!("{} was created meanwhile: the server keeps running", names(&late));
                return Err(Failure::new(Exit::Refused, what)
                    .hint("run `muster down` again to delete it too")
                    .into());
            }
            stop(&mut client).await?;
            Ok(output::print("server stopped\n"))
        })
    }
}

/// Returns the server's description if the caller may stop it; checked before anything is deleted.
async fn may_stop(client: &mut Client) -> Result<InfoResponse, Failure> {
    let me = who_am_i(client).await?;
    let info = client.info().cloned().filter(|_| me.roles.iter().any(|role| role == "admin"));
    info.ok_or_else(|| {
        let what = format!("{} is not an admin of this server: only admins may stop it", me.name);
        Failure::new(Exit::Refused, what).hint("`muster delete NAME` deletes a cluster")
    })
}

/// Lists the clusters of the server's own machine: a shared database has those of other machines too.
async fn of_this_machine(client: &mut Client, info: &InfoResponse) -> Result<Vec<Cluster>, Failure> {
    let all = FilterFlags::of_labels(Vec::new());
    let mut clusters = list(client, None, &AmongFlags::default(), &all).await?;
    clusters.retain(|cluster| is_here(cluster, &info.instances));
    Ok(clusters)
}

fn is_here(cluster: &Cluster, instances: &[String]) -> bool {
    !is_on_kubernetes(&cluster.instance) && instances.contains(&cluster.instance)
}

fn names(clusters: &[Cluster]) -> String {
    let names: Vec<String> =
        clusters.iter().map(|cluster| format!("{}/{}", cluster.namespace, cluster.name)).collect();
    names.join(", ")
}

/// Asks for confirmation, naming the clusters that would be deleted.
fn is_confirmed(clusters: &[Cluster], yes: bool) -> Result<bool> {
    if yes || clusters.is_empty() {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        let what = format!("this deletes {}", names(clusters));
        return Err(Failure::new(Exit::Usage, what).hint("confirm with --yes").into());
    }
    Ok(output::confirm(&format!("Delete {} and stop the server?", names(clusters)))?)
}

/// Submits all deletions, then waits for each.
async fn delete(client: &mut Client, clusters: &[Cluster]) -> Result<(), Failure> {
    let deadline = WaitFlags::without_limit().deadline();
    let mut subjects = Vec::new();
    for cluster in clusters {
        match submit(client, cluster, false, None, deadline).await {
            Ok(subject) => subjects.push(subject),
            // Deleted by another command meanwhile.
            Err(failure) if failure.exit == Exit::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    for subject in subjects {
        subject.wait_until_reached(client, deadline).await?;
        message!("{}/{} deleted", subject.namespace, subject.name);
    }
    Ok(())
}

/// Asks the server to stop and waits until it has stopped.
async fn stop(client: &mut Client) -> Result<(), Failure> {
    match client.admin().shutdown(ShutdownRequest {}).await {
        // The server may stop before its answer is sent.
        Err(status) if !connection_lost(&status) => Err(status.into()),
        _ => client.wait_until_stopped().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clusters_of_this_machine_are_deleted() {
        let served = ["local:one".to_owned(), "kubernetes:uid".to_owned()];
        let at = |instance: &str| Cluster { instance: instance.to_owned(), ..Cluster::default() };
        assert!(is_here(&at("local:one"), &served));
        assert!(!is_here(&at("local:other"), &served), "another machine's");
        assert!(!is_here(&at("kubernetes:uid"), &served));
    }
}
