//! `muster down`: the clusters of this machine, and then the server.

use std::io::{BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_proto::v1alpha2::{Cluster, InfoResponse, ShutdownRequest, WhoAmIRequest};

use super::delete::submit;
use super::get::list_all;
use super::is_on_kubernetes;
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure, connection_lost};
use crate::output::{self, say};
use crate::wait::WaitFlags;

/// Delete the clusters that run on this machine, and stop the server; Kubernetes is not touched
#[derive(Debug, Parser)]
pub(crate) struct Down {
    /// Do not ask
    #[arg(short = 'y', long)]
    yes: bool,
    #[command(flatten)]
    server: ServerFlags,
}

impl Down {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let Self { yes, server } = self;
            let mut client = match server.find().await? {
                Some(client) => client,
                // Its clusters outlive a server, and only a server ends them.
                None if server.has_clusters() => server.connect().await?,
                None => return Ok(output::print(&format!("no server runs with {}\n", server.described()))),
            };
            if !server.owns(&client) {
                let what = format!(
                    "the server at {} is not the one of this data folder, and only that one is stopped",
                    server.described()
                );
                let hint = "stop it where it was started; `muster delete NAME` deletes a cluster";
                return Err(Failure::new(Exit::Refused, what).hint(hint).into());
            }
            let info = may_stop(&mut client).await?;
            let clusters = of_this_machine(&mut client, &info).await?;
            if !agreed(&clusters, yes)? {
                return Err(Failure::new(Exit::Refused, "nothing was deleted, and the server goes on").into());
            }
            delete(&mut client, &clusters).await?;
            let late = of_this_machine(&mut client, &info).await?;
            if !late.is_empty() {
                let what = format!("{} came into being meanwhile: the server goes on", names(&late));
                return Err(Failure::new(Exit::Refused, what)
                    .hint("`muster down` again deletes them too")
                    .into());
            }
            stop(&mut client).await?;
            Ok(output::print("the server is stopped\n"))
        })
    }
}

/// What the server serves, if the caller may stop it: that is known before anything is deleted.
async fn may_stop(client: &mut Client) -> Result<InfoResponse, Failure> {
    let me = client.ask(async |client| client.admin().who_am_i(WhoAmIRequest {}).await).await?.into_inner();
    let info = client.info().cloned().filter(|_| me.roles.iter().any(|role| role == "admin"));
    info.ok_or_else(|| {
        let what = format!("{} is no admin of this server, and only admins stop one", me.name);
        Failure::new(Exit::Refused, what).hint("`muster delete NAME` deletes a cluster")
    })
}

/// The clusters of the server's own machine: a database may have those of other machines too.
async fn of_this_machine(client: &mut Client, info: &InfoResponse) -> Result<Vec<Cluster>, Failure> {
    let mut clusters = list_all(client).await?;
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

/// Whether to go on: what would be lost is named.
fn agreed(clusters: &[Cluster], yes: bool) -> Result<bool> {
    if yes || clusters.is_empty() {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        let what = format!("this deletes {}", names(clusters));
        return Err(Failure::new(Exit::Usage, what).hint("say --yes if that is meant").into());
    }
    eprint!("Delete {} and stop the server? [y/N] ", names(clusters));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Deletes all at once, and waits for each.
async fn delete(client: &mut Client, clusters: &[Cluster]) -> Result<(), Failure> {
    let deadline = WaitFlags::patient().deadline();
    let mut subjects = Vec::new();
    for cluster in clusters {
        match submit(client, cluster, false, None, deadline).await {
            Ok(subject) => subjects.push(subject),
            // Somebody else was faster.
            Err(failure) if failure.exit == Exit::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    for subject in subjects {
        subject.reached(client, deadline).await?;
        say!("{} is deleted", subject.typed());
    }
    Ok(())
}

/// Tells the server to stop, and waits until it has.
async fn stop(client: &mut Client) -> Result<(), Failure> {
    match client.admin().shutdown(ShutdownRequest {}).await {
        // It may be gone before its answer is.
        Err(status) if !connection_lost(&status) => Err(status.into()),
        _ => client.gone().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_on_this_machine_goes() {
        let served = ["local:one".to_owned(), "kubernetes:uid".to_owned()];
        let at = |instance: &str| Cluster { instance: instance.to_owned(), ..Cluster::default() };
        assert!(is_here(&at("local:one"), &served));
        assert!(!is_here(&at("local:other"), &served), "another machine's");
        assert!(!is_here(&at("kubernetes:uid"), &served));
    }
}
