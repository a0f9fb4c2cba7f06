//! The app of a launcher: its command, or in a pod the workload that the pod belongs to.

use std::time::Duration;

use muster_proto::v1alpha2::{App, AppProcess, EndAppRequest, RegisterAppRequest, RenewAppRequest};
use tokio::task::JoinHandle;

use super::Launcher;
use crate::commands::DEFAULT_NAMESPACE;
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::message;

/// The file in a pod in which Kubernetes provides the name of the pod's namespace.
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns an environment variable unless it is empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the value of a variable that is true or false.
pub(super) fn switch(name: &str) -> Result<Option<bool>, Failure> {
    variable(name).map(|value| parse_switch(name, &value)).transpose()
}

fn parse_switch(name: &str, value: &str) -> Result<bool, Failure> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Failure::new(Exit::Usage, format!("{name} is '{value}': must be true or false"))),
    }
}

/// Returns the name of the pod that this process runs in.
pub(super) fn pod_name() -> Option<String> {
    variable("POD_NAME")
}

pub(super) fn pod_namespace() -> String {
    let file = || std::fs::read_to_string(POD_NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
    variable("POD_NAMESPACE").or_else(file).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// The registered app on whose behalf clusters are created and deleted.
pub(super) struct Driver {
    /// Id of the app.
    pub(super) id: String,
    /// Name of the app, which its ephemeral cluster carries as a mark.
    pub(super) name: String,
    /// `kind/name`, as requests name it.
    pub(super) given: String,
    /// The Deployment that the app belongs to; empty if none.
    pub(super) deployment: String,
    /// Name of the cluster that the app uses.
    pub(super) cluster: String,
    is_command: bool,
    renewal: Option<JoinHandle<()>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}

impl Driver {
    /// Registers the app: in a pod the workload it belongs to, elsewhere the command. Without a given name, the cluster
    /// is the one recorded for the app, or gets a generated name.
    pub(super) async fn register(
        client: &mut Client,
        namespace: &str,
        provider: &str,
        pod: Option<String>,
        cluster: Option<String>,
        across_rollouts: bool,
    ) -> Result<Self, Failure> {
        let is_command = pod.is_none();
        if is_command && across_rollouts {
            let what = "--across-rollouts is for drivers in pods of a Deployment: leave it out";
            return Err(Failure::new(Exit::Usage, what));
        }
        let process = if is_command { Some(own_process()?) } else { None };
        let generated = if cluster.is_none() { format!("cluster-{}", suffix()) } else { String::new() };
        let request = RegisterAppRequest {
            namespace: namespace.to_owned(),
            app: pod.map_or_else(|| format!("run-{}", suffix()), |pod| format!("pod/{pod}")),
            provider: provider.to_owned(),
            process,
            // A given name is recorded once its cluster exists.
            cluster: generated.clone(),
            across_rollouts,
        };
        let answer = client.retry(async |client| client.apps().register_app(request.clone()).await).await?;
        let app = answer.into_inner();
        let renewal = start_renewal(client, &app);
        let App { id, name, kind, deployment, cluster: recorded, .. } = app;
        if cluster.is_none() && recorded != generated {
            message!("using stored cluster name {recorded}");
        }
        Ok(Self {
            given: format!("{kind}/{name}"),
            id,
            name,
            deployment,
            cluster: cluster.unwrap_or(recorded),
            is_command,
            renewal,
        })
    }

    /// Returns true if the app is a command, which ends with this driver.
    pub(super) const fn is_command(&self) -> bool {
        self.is_command
    }

    /// Returns true if a cluster with this mark belongs to the app.
    pub(super) fn owns(&self, marked: &str) -> bool {
        marked == self.name || (!self.deployment.is_empty() && marked == self.deployment)
    }
}

/// Renews the lease of a command that the server cannot observe, until the returned task is aborted.
fn start_renewal(client: &Client, app: &App) -> Option<JoinHandle<()>> {
    let lease = app.lease.and_then(|lease| Duration::try_from(lease).ok())?;
    let request = RenewAppRequest { namespace: app.namespace.clone(), id: app.id.clone(), process: None };
    let mut apps = client.apps();
    Some(tokio::spawn(async move {
        let mut period = tokio::time::interval(lease / 3);
        loop {
            period.tick().await;
            // Errors are ignored: a lease survives two failed renewals.
            let _ = tokio::time::timeout(lease / 3, apps.renew_app(request.clone())).await;
        }
    }))
}

/// Returns six random characters for a generated name.
fn suffix() -> String {
    let id = uuid::Uuid::new_v4();
    let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
    id.as_bytes().iter().take(6).map(|byte| char::from(letters[usize::from(*byte) % letters.len()])).collect()
}

fn own_process() -> Result<AppProcess, Failure> {
    process(std::process::id())
}

fn process(pid: u32) -> Result<AppProcess, Failure> {
    let found = muster_local::find_process(pid).ok().flatten();
    let found =
        found.ok_or_else(|| Failure::new(Exit::Failed, format!("process {pid} not found in /proc")))?;
    Ok(AppProcess { pid: found.pid, start_time: found.start_time, boot_id: found.boot_id })
}

impl Launcher {
    /// Registers the command's own process as the app, since it may outlive its launcher.
    pub(super) async fn hand_over(&mut self, pid: u32) {
        if !self.driver.is_command {
            return;
        }
        let Ok(process) = process(pid) else { return };
        let request = RenewAppRequest {
            namespace: self.namespace.clone(),
            id: self.driver.id.clone(),
            process: Some(process),
        };
        let renewed = self.client.retry(async |client| client.apps().renew_app(request.clone()).await).await;
        if let Err(failure) = renewed {
            message!("warning: could not register the command's process: {failure}");
        }
    }

    /// Reports that the command has ended and no longer uses its cluster.
    pub(super) async fn end_app(&mut self) {
        if !self.driver.is_command {
            return;
        }
        if let Some(renewal) = self.driver.renewal.take() {
            renewal.abort();
        }
        let request = EndAppRequest { namespace: self.namespace.clone(), id: self.driver.id.clone() };
        let ended = self.client.retry(async |client| client.apps().end_app(request.clone()).await).await;
        if let Err(failure) = ended {
            message!("warning: could not report the end of the command: {failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_true_or_false_in_any_case() {
        let read = |value: &str| parse_switch("APP_EXIT", value);
        assert_eq!((read("true"), read("False"), read("FALSE")), (Ok(true), Ok(false), Ok(false)));
        for value in ["0", "no", " false"] {
            let refused = read(value).expect_err("it is neither");
            assert_eq!(refused.exit, Exit::Usage);
            assert!(refused.what.contains(&format!("'{value}': must be true or false")), "{refused}");
        }
    }

    #[test]
    fn generated_names_have_six_small_letters_or_digits() {
        let made = suffix();
        assert_eq!(made.len(), 6);
        assert!(made.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{made}");
    }
}
