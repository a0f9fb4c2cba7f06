//! The rules by which a driver finds or creates its cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use muster_proto::v1alpha2::{
    AttachAppRequest, Cluster as FoundCluster, CreateClusterRequest, GetClusterRequest, ListAppsRequest,
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout};

use super::Launcher;
use super::requirement::PythonRequirement;
use crate::commands::create::Spec;
use crate::commands::{AmongFlags, find_optional, is_usable, request_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::message;
use crate::wait::{AwaitedAction, WaitFlags};

/// Interval at which an incomplete cluster is polled.
const PERIOD: Duration = Duration::from_millis(500);

/// The flags that affect the rules.
pub(super) struct Startup {
    pub(super) shared: bool,
    pub(super) across_rollouts: bool,
    pub(super) wait: Duration,
    pub(super) timeout: Duration,
    /// The properties of the profile.
    pub(super) properties: Option<Map<String, Value>>,
    /// What a script requires, with the interpreter that it will run in.
    pub(super) python: Option<(PythonRequirement, PathBuf)>,
}

/// The cluster of a driver.
pub(super) struct DriverCluster {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) ephemeral: bool,
    /// The environment variables of the cluster's nodes.
    pub(super) variables: BTreeMap<String, String>,
}

impl From<FoundCluster> for DriverCluster {
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
    pub(super) async fn cluster(
        &self,
        launcher: &mut Launcher,
        spec: &Spec,
    ) -> Result<DriverCluster, Failure> {
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
            if let Some(framework) = spec.named_framework()
                && found.framework != framework
            {
                return Err(other_framework(&found, framework));
            }
            let own = launcher.driver.owns(&found.app);
            match fit(&found, own) {
                Fit::Usable => match self.use_existing(launcher, spec, found).await {
                    // The cluster belongs to another app with the same name, or is being deleted: it may go.
                    Err(refused) if refused.exit == Exit::Refused && own && Instant::now() < deadline => {
                        if !is_announced {
                            message!("Found incomplete cluster {name}, waiting ...");
                        }
                        is_announced = true;
                        sleep(PERIOD).await;
                    }
                    used => return used,
                },
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
    ) -> Result<DriverCluster, Failure> {
        let name = found.name.clone();
        if let Some(workers) = spec.workers.filter(|workers| *workers != found.desired_workers) {
            message!(
                "note: cluster {name} has {} instead of {workers}; it is used unchanged",
                counted(found.desired_workers)
            );
        }
        if found.ephemeral && self.shared {
            message!("note: cluster {name} is ephemeral; it is used unchanged, and deleted with its app");
        }
        // The store compares the identity of the app with that of the cluster's: names may have been used before.
        let request = AttachAppRequest {
            namespace: launcher.namespace.clone(),
            cluster: name.clone(),
            app: launcher.driver.given.clone(),
            provider: found.instance.clone(),
            framework: found.framework.clone(),
        };
        launcher.client.retry(async |client| client.apps().attach_app(request.clone()).await).await?;
        message!("Using {} cluster {name}", kind(found.ephemeral));
        Ok(found.into())
    }

    /// Creates the cluster; `None` if another driver has just created it.
    async fn create(
        &self,
        launcher: &mut Launcher,
        spec: &Spec,
        name: &str,
    ) -> Result<Option<DriverCluster>, Failure> {
        if let Some((needed, python)) = &self.python {
            needed.check(python).await?;
        }
        message!("Didn't find cluster {name}, creating {} cluster", kind(!self.shared));
        let request = self.request(spec, name, &launcher.namespace, &launcher.driver.given);
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
        let subject = AwaitedAction::new(&created, action);
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
        let shown = client.retry(async |client| client.clusters().get_cluster(request.clone()).await).await?;
        message!("Using {} cluster {name}", kind(!self.shared));
        Ok(Some(shown.into_inner().into()))
    }

    /// Builds the request for a cluster of this app.
    fn request(&self, spec: &Spec, name: &str, namespace: &str, app: &str) -> CreateClusterRequest {
        let mut request = CreateClusterRequest {
            namespace: namespace.to_owned(),
            wait_for: "accepted".to_owned(),
            request_id: request_id(),
            across_rollouts: self.across_rollouts && !self.shared,
            ..spec.clone().request(name.to_owned(), self.properties.clone())
        };
        if let Some(cluster) = &mut request.cluster {
            app.clone_into(&mut cluster.app);
            cluster.ephemeral = !self.shared;
        }
        request
    }
}

/// Returns a number of workers in words.
fn counted(workers: i32) -> String {
    if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") }
}

/// Returns the refusal of a cluster that does not run the named framework.
fn other_framework(found: &FoundCluster, named: &str) -> Failure {
    let FoundCluster { name, framework, profile, .. } = found;
    // A cluster without a framework runs the nodes of its profile.
    let runs = if framework.is_empty() { profile } else { framework };
    let what = format!("cluster '{name}' runs {runs}, but this driver needs {named}");
    Failure::new(Exit::Refused, what).hint("choose another name with --cluster")
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
        let answer = self.client.retry(async |client| client.apps().list_apps(request.clone()).await).await?;
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
    use clap::Parser as _;
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_properties_of_a_profile_are_in_the_request() {
        let properties = r#"{"metadata": {"simulated_wait_time": 1}}"#;
        let flags = ["run", "--profile", "simulated.node-1.0", "--profile-properties", properties];
        let spec = Spec::try_parse_from(flags).expect("flags");
        let startup = Startup {
            shared: false,
            across_rollouts: false,
            wait: PERIOD,
            timeout: PERIOD,
            properties: spec.properties().expect("an object"),
            python: None,
        };
        let request = startup.request(&spec, "fred", "demo", "Command/run-1");
        let cluster = request.cluster.expect("a cluster");
        assert!(cluster.ephemeral && cluster.app == "Command/run-1", "{cluster:?}");
        let sent = cluster.profile_properties.expect("properties");
        assert!(sent.fields.contains_key("metadata"), "{sent:?}");
    }

    #[rstest]
    #[case("ray", "cluster 'fred' runs ray, but this driver needs dask")]
    #[case("", "cluster 'fred' runs local.process-1.0, but this driver needs dask")]
    fn a_cluster_without_a_framework_is_named_by_its_profile(
        #[case] framework: &str,
        #[case] expected: &str,
    ) {
        let [name, framework, profile] = ["fred", framework, "local.process-1.0"].map(str::to_owned);
        let found = FoundCluster { name, framework, profile, ..FoundCluster::default() };
        assert_eq!(other_framework(&found, "dask").what, expected);
    }

    #[test]
    fn one_worker_is_not_workers() {
        assert_eq!([0, 1, 2].map(counted), ["0 workers", "1 worker", "2 workers"]);
    }

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
