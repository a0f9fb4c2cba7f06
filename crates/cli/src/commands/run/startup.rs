//! The rules by which a driver finds or creates its cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_proto::v1alpha2::{
    AttachAppRequest, Cluster as FoundCluster, CreateClusterRequest, GetClusterRequest, ListAppsRequest,
};
use tokio::time::{Instant, sleep, timeout};

use super::Launcher;
use crate::commands::create::Spec;
use crate::commands::{AmongFlags, find_optional, is_usable, request_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::message;
use crate::wait::{Subject, WaitFlags};

/// Interval at which an incomplete cluster is polled.
const PERIOD: Duration = Duration::from_millis(500);

/// The flags that affect the rules.
pub(super) struct Startup {
    pub(super) shared: bool,
    pub(super) across_rollouts: bool,
    pub(super) wait: Duration,
    pub(super) timeout: Duration,
}

/// The cluster of a driver.
pub(super) struct Cluster {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) ephemeral: bool,
    /// The environment variables of the cluster's nodes.
    pub(super) variables: BTreeMap<String, String>,
}

impl From<FoundCluster> for Cluster {
    fn from(shown: FoundCluster) -> Self {
        let FoundCluster { id, name, ephemeral, envs, .. } = shown;
        Self { id, name, ephemeral, variables: envs }
    }
}

/// The answer to the question if a driver can use an existing cluster of the name that it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fit {
    /// The driver can use it.
    Usable,
    /// The cluster is being created, changed or deleted.
    Incomplete,
    /// The cluster belongs to another app, which may be ending.
    Foreign,
    /// The cluster has failed, for this reason.
    Broken(String),
}

fn fit(cluster: &FoundCluster, own: bool) -> Fit {
    match cluster.state.as_str() {
        "ERROR" => Fit::Broken(cluster.status_reason.clone()),
        _ if cluster.ephemeral && !own => Fit::Foreign,
        state if is_usable(state) => Fit::Usable,
        _ => Fit::Incomplete,
    }
}

impl Startup {
    /// Finds the cluster of a driver, or creates it.
    pub(super) async fn cluster(&self, launcher: &mut Launcher, spec: &Spec) -> Result<Cluster, Failure> {
        let deadline = Instant::now() + self.wait;
        let name = launcher.driver.cluster.clone();
        let mut is_announced = false;
        loop {
            let Some(found) = launcher.find(&name, spec).await? else {
                match Box::pin(self.create(launcher, spec, &name)).await? {
                    Some(cluster) => return Ok(cluster),
                    // Another driver created the cluster at the same moment.
                    None => continue,
                }
            };
            if !is_announced && fit(&found, true) == Fit::Usable {
                message!("Found cluster {name}");
            }
            if let Some(framework) = spec.framework()
                && spec.is_of_framework()
                && found.framework != framework
            {
                let what =
                    format!("cluster '{name}' runs {}, but this driver needs {framework}", found.framework);
                return Err(Failure::new(Exit::Refused, what).hint("choose another name with --cluster"));
            }
            let own = launcher.driver.owns(&found.app);
            match fit(&found, own) {
                Fit::Usable => return self.use_existing(launcher, spec, found).await,
                Fit::Broken(why) => {
                    return Err(Failure::new(
                        Exit::Failed,
                        format!("cluster '{name}' is in state ERROR: {why}"),
                    ));
                }
                Fit::Foreign if !launcher.owner_may_be_ending(&found).await? => {
                    return Err(foreign_error(launcher, &found));
                }
                Fit::Foreign if Instant::now() >= deadline => return Err(foreign_error(launcher, &found)),
                Fit::Incomplete if Instant::now() >= deadline => {
                    let what = "Cluster is still incomplete, exiting";
                    return Err(Failure::new(Exit::TimedOut, what)
                        .hint(format!("it is {}: {}", found.state, found.status_reason)));
                }
                Fit::Foreign | Fit::Incomplete => {
                    if !is_announced {
                        message!("Found incomplete cluster {name}, waiting ...");
                    }
                    is_announced = true;
                    sleep(PERIOD).await;
                }
            }
        }
    }

    async fn use_existing(
        &self,
        launcher: &mut Launcher,
        spec: &Spec,
        found: FoundCluster,
    ) -> Result<Cluster, Failure> {
        let name = found.name.clone();
        if let Some(workers) = spec.workers.filter(|workers| *workers != found.desired_workers) {
            message!(
                "note: cluster {name} has {} workers instead of {workers}; it is used unchanged",
                found.desired_workers
            );
        }
        if found.ephemeral && self.shared {
            message!("note: cluster {name} is ephemeral; it is used unchanged, and deleted with its app");
        }
        if !found.ephemeral {
            let request = AttachAppRequest {
                namespace: launcher.namespace.clone(),
                cluster: name.clone(),
                app: launcher.driver.given.clone(),
                provider: found.instance.clone(),
                framework: found.framework.clone(),
            };
            launcher.client.ask(async |client| client.apps().attach_app(request.clone()).await).await?;
        }
        message!("Using {} cluster {name}", kind(found.ephemeral));
        Ok(found.into())
    }

    /// Creates the cluster; `None` if another driver has just created it.
    async fn create(
        &self,
        launcher: &mut Launcher,
        spec: &Spec,
        name: &str,
    ) -> Result<Option<Cluster>, Failure> {
        message!("Didn't find cluster {name}, creating {} cluster", kind(!self.shared));
        let mut request = CreateClusterRequest {
            namespace: launcher.namespace.clone(),
            wait_for: "accepted".to_owned(),
            request_id: request_id(),
            across_rollouts: self.across_rollouts && !self.shared,
            ..spec.clone().request(name.to_owned(), None)
        };
        if let Some(cluster) = &mut request.cluster {
            cluster.app.clone_from(&launcher.driver.given);
            cluster.ephemeral = !self.shared;
        }
        let client = &mut launcher.client;
        let submit = async |client: &Client| client.clusters().create_cluster(request.clone()).await;
        let (created, action) =
            match Box::pin(WaitFlags::without_limit().deadline().submit(client, submit)).await {
                Ok(created) => created,
                Err(failure) if failure.is_taken => return Ok(None),
                Err(failure) => return Err(failure),
            };
        if created.ephemeral == self.shared {
            message!("Could not create an ephemeral cluster, created a shared cluster instead");
        }
        let subject = Subject::new(&created, action);
        match timeout(self.timeout, subject.wait_silently(client)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                launcher.remove(&created.id).await;
                return Err(failure);
            }
            Err(_) => {
                launcher.remove(&created.id).await;
                let what = format!("cluster '{name}' was not usable after {} s", self.timeout.as_secs());
                return Err(Failure::new(Exit::TimedOut, what).hint("allow more time with --timeout"));
            }
        }
        let request = GetClusterRequest { id: created.id, ..GetClusterRequest::default() };
        let shown = client.ask(async |client| client.clusters().get_cluster(request.clone()).await).await?;
        message!("Using {} cluster {name}", kind(!self.shared));
        Ok(Some(shown.into_inner().into()))
    }
}

fn kind(ephemeral: bool) -> &'static str {
    if ephemeral { "ephemeral" } else { "shared" }
}

fn foreign_error(launcher: &Launcher, found: &FoundCluster) -> Failure {
    let (theirs, own) = (&found.app, &launcher.driver.name);
    let what = format!("ephemeral cluster belongs to deployment {theirs} and this is {own}, exiting");
    Failure::new(Exit::Refused, what)
}

impl Launcher {
    async fn find(&mut self, name: &str, spec: &Spec) -> Result<Option<FoundCluster>, Failure> {
        find_optional(&mut self.client, &self.namespace, name, &AmongFlags::at(spec.provider())).await
    }

    /// Returns true if the app that a cluster belongs to is gone, or is another rollout of the same Deployment.
    async fn owner_may_be_ending(&mut self, found: &FoundCluster) -> Result<bool, Failure> {
        let request = ListAppsRequest {
            namespace: self.namespace.clone(),
            cluster: found.name.clone(),
            ..ListAppsRequest::default()
        };
        let answer = self.client.ask(async |client| client.apps().list_apps(request.clone()).await).await?;
        let apps = answer.into_inner().apps;
        let Some(owner) = apps.into_iter().find(|app| app.name == found.app) else { return Ok(true) };
        // A ReplicaSet is named after its Deployment, with a hash.
        let rollout = |deployment: &str| {
            owner
                .name
                .strip_prefix(deployment)
                .is_some_and(|rest| rest.starts_with('-') && rest.matches('-').count() == 1)
        };
        Ok(owner.state == "gone" || (!self.driver.deployment.is_empty() && rollout(&self.driver.deployment)))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ACTIVE", false, false, Fit::Usable)]
    #[case("WARNING", true, true, Fit::Usable)]
    #[case("RESIZING", false, false, Fit::Usable)]
    #[case("CREATING", false, false, Fit::Incomplete)]
    #[case("DELETING", true, true, Fit::Incomplete)]
    #[case("RECOVERING", true, true, Fit::Incomplete)]
    #[case("CRITICAL", false, false, Fit::Incomplete)]
    #[case("INIT", false, false, Fit::Incomplete)]
    #[case("ACTIVE", true, false, Fit::Foreign)]
    #[case("CREATING", true, false, Fit::Foreign)]
    #[case("ERROR", false, false, Fit::Broken("why".to_owned()))]
    fn a_cluster_fits_by_its_state_and_its_app(
        #[case] state: &str,
        #[case] ephemeral: bool,
        #[case] own: bool,
        #[case] expected: Fit,
    ) {
        let cluster = FoundCluster {
            state: state.to_owned(),
            status_reason: "why".to_owned(),
            ephemeral,
            ..FoundCluster::default()
        };
        assert_eq!(fit(&cluster, own), expected);
    }
}
