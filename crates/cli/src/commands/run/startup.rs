//! The rules by which a driver finds or makes its cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_proto::v1alpha2::{
    AttachAppRequest, Cluster as Shown, CreateClusterRequest, GetClusterRequest, GetEnvironmentRequest,
    ListAppsRequest, ListFrameworksRequest,
};
use tokio::time::{Instant, sleep, timeout};

use super::Launcher;
use crate::commands::create::Spec;
use crate::commands::{is_usable, request_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::say;
use crate::wait::{Subject, WaitFlags};

/// How often a cluster is read that is not complete.
const PERIOD: Duration = Duration::from_millis(500);

/// The rules that the command line chooses.
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
    pub(super) framework: String,
    pub(super) is_local: bool,
    /// The interpreter that its processes were given, on this machine.
    pub(super) python: Option<String>,
}

impl From<Shown> for Cluster {
    fn from(shown: Shown) -> Self {
        let head = shown.cluster_spec.and_then(|spec| spec.head_group_spec).unwrap_or_default();
        let is_local = shown.provider == "local";
        let python = Some(head.image).filter(|image| is_local && !image.is_empty());
        let Shown { id, name, ephemeral, framework, .. } = shown;
        Self { id, name, ephemeral, framework, is_local, python }
    }
}

/// What a cluster that has the name is to a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fit {
    /// It can be used.
    Usable,
    /// It is being made, changed or deleted.
    Incomplete,
    /// It belongs to another app, which may be about to leave it.
    Foreign,
    /// It cannot be used.
    Broken(String),
}

fn fit(cluster: &Shown, own: bool) -> Fit {
    match cluster.state.as_str() {
        "ERROR" => Fit::Broken(cluster.status_reason.clone()),
        _ if cluster.ephemeral && !own => Fit::Foreign,
        state if is_usable(state) => Fit::Usable,
        _ => Fit::Incomplete,
    }
}

impl Startup {
    /// Finds the cluster of a driver, or makes it.
    pub(super) async fn cluster(&self, launcher: &mut Launcher, spec: &Spec) -> Result<Cluster, Failure> {
        let deadline = Instant::now() + self.wait;
        let name = launcher.driver.cluster.clone();
        let mut said = false;
        loop {
            let Some(found) = launcher.find(&name, spec).await? else {
                match Box::pin(self.create(launcher, spec, &name)).await? {
                    Some(cluster) => return Ok(cluster),
                    // Another driver made it in this moment.
                    None => continue,
                }
            };
            if !said && fit(&found, true) == Fit::Usable {
                say!("Found cluster {name}");
            }
            if let Some(framework) = spec.framework()
                && spec.is_of_framework()
                && found.framework != framework
            {
                let what =
                    format!("cluster '{name}' runs {}, and this driver wants {framework}", found.framework);
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
                Fit::Foreign if !launcher.may_be_left(&found).await? => {
                    return Err(foreign(launcher, &found));
                }
                Fit::Foreign if Instant::now() >= deadline => return Err(foreign(launcher, &found)),
                Fit::Incomplete if Instant::now() >= deadline => {
                    let what = "Cluster is still incomplete, exiting";
                    return Err(Failure::new(Exit::TimedOut, what)
                        .hint(format!("it is {}: {}", found.state, found.status_reason)));
                }
                Fit::Foreign | Fit::Incomplete => {
                    if !said {
                        say!("Found incomplete cluster {name}, waiting ...");
                    }
                    said = true;
                    sleep(PERIOD).await;
                }
            }
        }
    }

    async fn use_existing(
        &self,
        launcher: &mut Launcher,
        spec: &Spec,
        found: Shown,
    ) -> Result<Cluster, Failure> {
        let name = found.name.clone();
        if let Some(workers) = spec.workers.filter(|workers| *workers != found.desired_workers) {
            say!(
                "note: cluster {name} has {} workers, and {workers} were asked for: it is used as it is",
                found.desired_workers
            );
        }
        if found.ephemeral && self.shared {
            say!("note: cluster {name} is ephemeral: it is used as it is, and deleted by the rules");
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
        say!("Using {} cluster {name}", kind(found.ephemeral));
        Ok(found.into())
    }

    /// Makes the cluster; none if another driver has just made it.
    async fn create(
        &self,
        launcher: &mut Launcher,
        spec: &Spec,
        name: &str,
    ) -> Result<Option<Cluster>, Failure> {
        say!("Didn't find cluster {name}, creating {} cluster", kind(!self.shared));
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
        let (created, action) = match WaitFlags::patient().deadline().submit(client, submit).await {
            Ok(created) => created,
            Err(failure) if failure.is_taken => return Ok(None),
            Err(failure) => return Err(failure),
        };
        if created.ephemeral == self.shared {
            say!("Could not create an ephemeral cluster, created a shared cluster instead");
        }
        let subject = Subject::new(&created, action);
        match timeout(self.timeout, subject.reached_quietly(client)).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                launcher.remove(&created.id).await;
                return Err(failure);
            }
            Err(_) => {
                launcher.remove(&created.id).await;
                let what = format!("cluster '{name}' was not there after {} s", self.timeout.as_secs());
                return Err(Failure::new(Exit::TimedOut, what).hint("give it longer with --timeout"));
            }
        }
        let request = GetClusterRequest { id: created.id, ..GetClusterRequest::default() };
        let shown = client.ask(async |client| client.clusters().get_cluster(request.clone()).await).await?;
        say!("Using {} cluster {name}", kind(!self.shared));
        Ok(Some(shown.into_inner().into()))
    }
}

fn kind(ephemeral: bool) -> &'static str {
    if ephemeral { "ephemeral" } else { "shared" }
}

fn foreign(launcher: &Launcher, found: &Shown) -> Failure {
    let (theirs, own) = (&found.app, &launcher.driver.name);
    let what = format!("ephemeral cluster belongs to deployment {theirs} and this is {own}, exiting");
    Failure::new(Exit::Refused, what)
}

impl Launcher {
    async fn find(&mut self, name: &str, spec: &Spec) -> Result<Option<Shown>, Failure> {
        let request = GetClusterRequest {
            namespace: self.namespace.clone(),
            name: name.to_owned(),
            provider: spec.provider().to_owned(),
            ..GetClusterRequest::default()
        };
        let call = async |client: &Client| client.clusters().get_cluster(request.clone()).await;
        match self.client.ask(call).await {
            Ok(found) => Ok(Some(found.into_inner())),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the app that a cluster belongs to is gone, or is another rollout of the same Deployment.
    async fn may_be_left(&mut self, found: &Shown) -> Result<bool, Failure> {
        let request = ListAppsRequest {
            namespace: self.namespace.clone(),
            cluster: found.name.clone(),
            ..ListAppsRequest::default()
        };
        let answer = self.client.ask(async |client| client.apps().list_apps(request.clone()).await).await?;
        let apps = answer.into_inner().apps;
        let Some(owner) = apps.into_iter().find(|app| app.name == found.app) else { return Ok(true) };
        // The name of a ReplicaSet is that of its Deployment and a hash.
        let rollout = |deployment: &str| {
            owner
                .name
                .strip_prefix(deployment)
                .is_some_and(|rest| rest.starts_with('-') && rest.matches('-').count() == 1)
        };
        Ok(owner.state == "gone" || (!self.driver.deployment.is_empty() && rollout(&self.driver.deployment)))
    }

    /// The interpreter that the server takes for local clusters of a framework.
    pub(super) async fn interpreter(&mut self, framework: &str) -> Result<Option<String>, Failure> {
        let request = ListFrameworksRequest::default();
        let call = async |client: &Client| client.frameworks().list_frameworks(request).await;
        let all = self.client.ask(call).await?.into_inner().frameworks;
        let found = all.into_iter().find(|known| known.name == framework);
        Ok(found.map(|known| known.interpreter).filter(|python| !python.is_empty()))
    }

    pub(super) async fn environment(
        &mut self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let request = GetEnvironmentRequest { id: cluster.id.clone(), ..GetEnvironmentRequest::default() };
        let call = async |client: &Client| client.clusters().get_environment(request.clone()).await;
        Ok(self.client.ask(call).await?.into_inner().variables)
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
        let cluster =
            Shown { state: state.to_owned(), status_reason: "why".to_owned(), ephemeral, ..Shown::default() };
        assert_eq!(fit(&cluster, own), expected);
    }
}
