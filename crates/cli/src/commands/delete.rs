//! `muster delete`: deletes clusters and waits until all their nodes are gone.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use muster_core::ephemeral::AppStatus;
use muster_proto::v1alpha2::{
    App, Cluster, DeleteClusterRequest, GetActivityRequest, ListAppsRequest, WhoAmIResponse,
};

use super::select::{self, FilterFlags};
use super::{AmongFlags, NamespaceFlag, app, deleted_with_app, find, find_by_id, request_id};
use crate::connect::{Client, ServerFlags};
use crate::failure::{Exit, Failure};
use crate::format::{self, Format, FormatFlag};
use crate::output::{self, message};
use crate::wait::{AwaitedAction, Deadline, WaitFlags};

/// Delete clusters
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  muster delete fred\n  muster delete -l team=x --yes\n  muster delete --all -n demo"
)]
pub(crate) struct Delete {
    /// Names of the clusters
    #[arg(value_name = "NAME", add = crate::complete::clusters(), required_unless_present_any = ["all", "label"])]
    name: Vec<String>,
    /// Delete all clusters of the namespace
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Delete the clusters with this label, as KEY=VALUE; may be repeated
    #[arg(short = 'l', long, value_name = "KEY=VALUE", conflicts_with_all = ["name", "all"])]
    label: Vec<String>,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    yes: bool,
    #[command(flatten)]
    namespace: NamespaceFlag,
    #[command(flatten)]
    among: AmongFlags,
    /// Remove its records even if no server serves its provider any more
    #[arg(long, conflicts_with = "app")]
    force: bool,
    /// Delete only if it is an ephemeral cluster of this app and the rules for the end of a driver allow it
    #[arg(long, value_name = "APP", requires = "name")]
    app: Option<String>,
    /// How the app's driver ended: completed or terminated
    #[arg(long, value_name = "STATUS")]
    app_status: Option<String>,
    /// Exit status of the driver's command
    #[arg(long, value_name = "N", allow_negative_numbers = true, requires = "app")]
    exit_code: Option<i32>,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    format: FormatFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl Delete {
    pub(crate) fn run(self) -> ExitCode {
        output::run(async {
            let driver = DriverEndFlags::parse(self.app.clone(), self.app_status.clone(), self.exit_code)?;
            let deadline = self.wait.deadline();
            let mut client = deadline.limit(self.server.connect_to_existing()).await?;
            let namespace = self.namespace.resolve(&mut client).await?;
            let (clusters, gone) = self.clusters(&mut client, &namespace).await?;
            let format = self.format.format;
            let is_table = matches!(format, Format::Table | Format::Wide);
            for name in &gone {
                print_gone(name, is_table);
            }
            if clusters.is_empty() && (gone.is_empty() || !is_table) {
                return format::array(format, &clusters, "no matching clusters: nothing was deleted");
            }
            if clusters.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            if driver.is_none() && !self.is_confirmed(&mut client, &clusters).await? {
                message!("nothing was deleted");
                return Ok(Exit::Refused.into());
            }
            let mut shown = Vec::new();
            let mut failure = None;
            let mut subjects = Vec::new();
            for cluster in &clusters {
                match submit(&mut client, cluster, self.force, driver.as_ref(), deadline).await {
                    Ok(subject) => subjects.push(subject),
                    // Kubernetes' garbage collector deleted the cluster together with its app.
                    Err(missing)
                        if missing.exit == Exit::NotFound
                            && self
                                .is_gone_with_app(&mut client, &cluster.namespace, &cluster.name)
                                .await? =>
                    {
                        print_gone(&cluster.name, is_table);
                    }
                    Err(refused) if driver.is_some() && refused.exit == Exit::Refused => {
                        print_text(&refused.what, is_table);
                        let what = format!("cluster not deleted '{}'", cluster.name);
                        record_failure(&mut failure, Failure::new(Exit::Refused, what));
                    }
                    Err(other) => record_failure(&mut failure, other),
                }
            }
            for subject in subjects {
                if self.wait.no_wait {
                    subject.print_accepted();
                    if !is_table {
                        shown.push(find_by_id(&mut client, &subject.cluster_id).await?);
                    }
                    continue;
                }
                match subject.wait_until_reached(&mut client, deadline).await {
                    Ok(()) if is_table => {
                        print_text(&format!("cluster \"{}\" deleted", subject.name), is_table);
                    }
                    Ok(()) => shown.push(find_by_id(&mut client, &subject.cluster_id).await?),
                    Err(other) => record_failure(&mut failure, other),
                }
            }
            if !is_table {
                format::array(format, &shown, "")?;
            }
            match failure {
                Some(failure) => Err(failure.into()),
                None => Ok(ExitCode::SUCCESS),
            }
        })
    }

    /// Finds the clusters, and the names of those that were deleted together with the driver's app. Any other unknown
    /// name is an error before anything is deleted.
    async fn clusters(
        &self,
        client: &mut Client,
        namespace: &str,
    ) -> Result<(Vec<Cluster>, Vec<String>), Failure> {
        if self.name.is_empty() {
            let filter = FilterFlags::of_labels(self.label.clone());
            return Ok((select::list(client, Some(namespace), &self.among, &filter).await?, Vec::new()));
        }
        let (mut clusters, mut gone): (Vec<Cluster>, Vec<String>) = (Vec::new(), Vec::new());
        let mut unknown = None;
        for name in &self.name {
            match find(client, namespace, name, &self.among).await {
                Ok(cluster) if clusters.iter().all(|known| known.id != cluster.id) => clusters.push(cluster),
                Ok(_) => {}
                Err(missing) if missing.exit == Exit::NotFound => {
                    if self.is_gone_with_app(client, namespace, name).await? {
                        gone.push(name.clone());
                    } else {
                        record_failure(&mut unknown, missing);
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        match unknown {
            Some(missing) => Err(missing),
            None => Ok((clusters, gone)),
        }
    }

    /// Returns true if the cluster was deleted together with the app whose driver runs this command.
    async fn is_gone_with_app(
        &self,
        client: &mut Client,
        namespace: &str,
        name: &str,
    ) -> Result<bool, Failure> {
        match &self.app {
            Some(app) => deleted_with_app::was_deleted_with(client, namespace, name, app).await,
            None => Ok(false),
        }
    }

    /// Asks for confirmation. By name, only on a terminal and only if other users or programs may lose the cluster; by
    /// label or `--all`, always, so that scripts have to pass `--yes`.
    async fn is_confirmed(&self, client: &mut Client, clusters: &[Cluster]) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        let names: Vec<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let names = names.join(", ");
        let is_terminal = std::io::stdin().is_terminal();
        if self.name.is_empty() {
            if !is_terminal {
                let failure = Failure::new(Exit::Usage, format!("this deletes {names}"));
                return Err(failure.hint("confirm with --yes").into());
            }
            return Ok(output::confirm(&format!("Delete {names}?"))?);
        }
        if !is_terminal {
            return Ok(true);
        }
        let me = select::who_am_i(client).await?;
        for cluster in clusters {
            let mut used_by = users(client, cluster).await?;
            if used_by.is_empty() && is_busy(client, cluster).await {
                used_by.push(format!("tasks or programs: {} reports that it is in use", cluster.framework));
            }
            if let Some(why) = objection(cluster, &me, &used_by)
                && !output::confirm(&format!("cluster '{}' {why}. Delete it?", cluster.name))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Prints that a cluster is gone together with its app, which for its driver is a success.
fn print_gone(name: &str, is_table: bool) {
    message!("note: cluster '{name}' was gone already: it was deleted with its app");
    print_text(&format!("cluster \"{name}\" deleted"), is_table);
}

/// Prints a line for people. In the other formats standard output has only the deleted clusters.
fn print_text(line: &str, is_table: bool) {
    if is_table {
        output::print(&format!("{line}\n"));
    } else {
        message!("{line}");
    }
}

/// Keeps the first failure for the exit code, and prints every further one.
fn record_failure(first: &mut Option<Failure>, next: Failure) {
    match first {
        None => *first = Some(next),
        Some(_) => message!("error: {}", next.what),
    }
}

/// Lists the running apps and jobs that use a cluster.
async fn users(client: &mut Client, cluster: &Cluster) -> Result<Vec<String>, Failure> {
    let request = ListAppsRequest {
        namespace: cluster.namespace.clone(),
        cluster: cluster.name.clone(),
        ..ListAppsRequest::default()
    };
    let apps = app::list(client, request).await?;
    let uses = |app: &&App| app.uses.iter().any(|used| used.cluster_id == cluster.id);
    let mut names: Vec<String> =
        apps.iter().filter(|app| app.state == "running").filter(uses).map(|app| app.name.clone()).collect();
    names.extend(cluster.open_jobs.iter().map(|job| format!("job {job}")));
    Ok(names)
}

/// Returns true if the framework reports tasks or connected programs. A cluster that cannot be queried is not used.
async fn is_busy(client: &mut Client, cluster: &Cluster) -> bool {
    let request = GetActivityRequest { id: cluster.id.clone(), ..GetActivityRequest::default() };
    let call = async |client: &Client| client.usage().get_activity(request.clone()).await;
    client.retry(call).await.is_ok_and(|activity| activity.into_inner().state == "busy")
}

/// Returns why a deletion needs confirmation: other users or programs would lose the cluster.
fn objection(cluster: &Cluster, me: &WhoAmIResponse, used_by: &[String]) -> Option<String> {
    let owner = cluster.owner.clone().unwrap_or_default();
    if owner.id.is_empty() {
        return Some("was not created by Muster".to_owned());
    }
    if !select::is_own(cluster, me) {
        let name = if owner.name.is_empty() { &owner.id } else { &owner.name };
        return Some(format!("belongs to {name}"));
    }
    (!used_by.is_empty()).then(|| format!("is used by {}", used_by.join(", ")))
}

/// The end of an app's driver: the status, and the exit code if it was given.
#[derive(Debug, Clone, Default)]
pub(super) struct DriverEndFlags {
    app: String,
    status: String,
    exit_code: Option<i32>,
}

impl DriverEndFlags {
    fn parse(
        app: Option<String>,
        status: Option<String>,
        exit_code: Option<i32>,
    ) -> Result<Option<Self>, Failure> {
        match (app, status) {
            (None, None) => Ok(None),
            (Some(app), Some(status)) => {
                if status.parse::<AppStatus>().is_err() {
                    let what = "INVALID app-status value, only completed|terminated allowed";
                    return Err(Failure::new(Exit::Usage, what));
                }
                Ok(Some(Self { app, status, exit_code }))
            }
            _ => Err(Failure::new(Exit::Usage, "Both --app and --app-status must be set")),
        }
    }
}

/// Submits the deletion of this cluster by id: another cluster may have its name by then.
pub(super) async fn submit(
    client: &mut Client,
    cluster: &Cluster,
    force: bool,
    driver: Option<&DriverEndFlags>,
    deadline: Deadline,
) -> Result<AwaitedAction, Failure> {
    let driver = driver.cloned().unwrap_or_default();
    let request = DeleteClusterRequest {
        id: cluster.id.clone(),
        wait_for: "accepted".to_owned(),
        request_id: request_id(),
        force,
        app: driver.app,
        app_status: driver.status,
        exit_code: driver.exit_code,
        ..DeleteClusterRequest::default()
    };
    let submit = async |client: &Client| client.clusters().delete_cluster(request.clone()).await;
    let (_, action) = deadline.submit(client, submit).await?;
    Ok(AwaitedAction::new(cluster, action))
}

#[cfg(test)]
mod tests {
    use muster_proto::v1alpha2::Owner;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(("local", "0", "root"), &[], None)]
    #[case(("local", "0", "root"), &["deploy/bob"], Some("is used by deploy/bob"))]
    #[case(("local", "1000", "bob"), &[], Some("belongs to bob"))]
    #[case(("kuberay", "0", ""), &[], Some("belongs to 0"))]
    #[case(("", "", ""), &[], Some("was not created by Muster"))]
    fn a_deletion_needs_confirmation_if_others_would_lose_the_cluster(
        #[case] (scheme, id, name): (&str, &str, &str),
        #[case] used_by: &[&str],
        #[case] expected: Option<&str>,
    ) {
        let owner = Owner { scheme: scheme.to_owned(), id: id.to_owned(), name: name.to_owned() };
        let cluster = Cluster { owner: Some(owner), ..Cluster::default() };
        let me =
            WhoAmIResponse { scheme: "local".to_owned(), id: "0".to_owned(), ..WhoAmIResponse::default() };
        let used_by: Vec<String> = used_by.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(objection(&cluster, &me, &used_by).as_deref(), expected);
    }
}
