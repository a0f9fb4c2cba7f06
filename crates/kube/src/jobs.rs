//! The commands of jobs: each is a `batch/v1` Job with one pod, in the namespace of its cluster.
//!
//! Kubernetes deletes a Job, and the log of its pod, a day after its end. A Job that is stopped is deleted at once.

mod ending;
mod manifest;
mod pods;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, select};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use muster_core::cluster::Cluster;
use muster_core::job::{Job, JobSpec, LAST_LINES, last_lines};
use muster_engine::ports::jobs::{CommandProgress, JobCall, JobEnd, JobLog, JobRunner, JobStart, STOP_GRACE};
use muster_engine::ports::provider::{INVALID, LogQuery, ProviderError};
use tokio_util::sync::CancellationToken;

use crate::apps::JOB;
use crate::connect::KubernetesConnection;
use crate::containers::ContainerProgress;
use crate::installed_flavors::watch_scopes;
use crate::logs::{self, LogSource};
use crate::operator_clusters::OperatorClusters;
use crate::ownership;
use crate::pods::is_pod;
use crate::watches::{self, typed_api};
use crate::writer::{ObjectWriter, run_detached};
use ending::DescribedEnd;
use manifest::CONTAINER;
use pods::{JobPod, JobPodCache, JobPodSink};

/// The pause between two reads of a Job without a pod: only pods are watched.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// The time-out of reading the last lines of a log.
const LOG_DEADLINE: Duration = Duration::from_secs(5);

/// Runs the commands of jobs as Jobs of a Kubernetes.
pub(crate) struct KubernetesJobs {
    client: Client,
    writer: ObjectWriter,
    operator_clusters: Arc<OperatorClusters>,
    pods: Arc<JobPodCache>,
}

impl KubernetesJobs {
    /// Starts the watches of the pods of jobs, which end when `stop` is cancelled.
    pub(crate) fn start(
        connection: &KubernetesConnection,
        served: &[String],
        operator_clusters: Arc<OperatorClusters>,
        stop: &CancellationToken,
    ) -> Self {
        let KubernetesConnection { client, watch_client, identity_gate, fences, .. } = connection;
        let scopes = watch_scopes(served);
        let pods = Arc::new(JobPodCache::new(&scopes));
        for (index, namespace) in scopes.into_iter().enumerate() {
            let api = typed_api(watch_client.clone(), namespace.as_deref());
            let sink = JobPodSink { pods: Arc::clone(&pods), index, namespace };
            let watch = watches::run_watch(api, ownership::JOB, sink, stop.clone());
            tokio::spawn(identity_gate.clone().run_once_confirmed(watch, stop.clone()));
        }
        let writer = ObjectWriter::new(client.clone(), fences.clone());
        Self { client: client.clone(), writer, operator_clusters, pods }
    }

    /// Reads the present progress of a command from its pod or, without a pod, from its Job.
    async fn observe(&self, job: &Job, has_started: bool) -> Result<CommandProgress, ProviderError> {
        let pod = self.pods.pod_of(job.id, &job.namespace)?;
        let has_started = has_started || pod.as_ref().is_some_and(|pod| pod.has_started);
        if let Some(pod) = &pod {
            match &pod.state {
                ContainerProgress::Ended(ended) => {
                    return Ok(self
                        .job_end(ending::container_end(ended, pod.status.as_ref()), Some(pod))
                        .await);
                }
                ContainerProgress::PodFailed(why) => {
                    return Ok(self.job_end(ending::unknown_end(has_started, why), Some(pod)).await);
                }
                ContainerProgress::Running(since) if !pod.is_gone => {
                    return Ok(CommandProgress::Running(*since));
                }
                ContainerProgress::Waiting(why) if !pod.is_gone => return Ok(waiting_progress(why)),
                ContainerProgress::Running(_) | ContainerProgress::Waiting(_) => {}
            }
        }
        let name = manifest::object_name(job.id);
        let Some(object) = self.writer.read_object(&JOB, &job.namespace, &name).await? else {
            let why = format!("its Job '{}/{name}' was deleted", job.namespace);
            return Ok(self.job_end(ending::unknown_end(has_started, &why), None).await);
        };
        if let Some(ending) = ending::job_object_end(&object, has_started) {
            return Ok(self.job_end(ending, None).await);
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        Ok(match self.operator_clusters.last_warning(uid) {
            Some(why) => CommandProgress::Waiting(format!("Its pod is not there: {why}")),
            None => CommandProgress::Waiting("Its pod is being created.".to_owned()),
        })
    }

    async fn job_end(&self, (how, message): DescribedEnd, pod: Option<&JobPod>) -> CommandProgress {
        let log = match pod.filter(|pod| !pod.is_gone) {
            Some(pod) => self.read_last_lines(pod).await,
            None => String::new(),
        };
        CommandProgress::Ended(JobEnd { how, message, log })
    }

    /// Observes a command at each change until `wanted` accepts its progress.
    async fn wait_for<T>(
        &self,
        job: &Job,
        has_started: bool,
        wanted: impl Fn(CommandProgress) -> Option<T>,
    ) -> Result<T, ProviderError> {
        let mut changes = self.pods.subscribe();
        loop {
            changes.mark_unchanged();
            match self.observe(job, has_started).await {
                Ok(progress) => {
                    if let Some(accepted) = wanted(progress) {
                        return Ok(accepted);
                    }
                }
                // The pods are unknown while a watch is being restarted.
                Err(error) if error.transient => {
                    tracing::debug!(job = %job.id, %error, "cannot observe a job");
                }
                Err(error) => return Err(error),
            }
            let changed = std::pin::pin!(changes.changed());
            let later = std::pin::pin!(tokio::time::sleep(READ_INTERVAL));
            match select(changed, later).await {
                Either::Left((Ok(()), _)) | Either::Right(_) => {}
                Either::Left((Err(_), later)) => later.await,
            }
        }
    }

    /// Reads the log of a pod, without waiting for its container to start.
    async fn read_log(&self, pod: &JobPod, query: LogQuery) -> Result<JobLog, ProviderError> {
        let source = LogSource {
            namespace: &pod.namespace,
            pod: &pod.name,
            container: CONTAINER,
            machine: pod.machine.as_deref(),
            reason: "it has not started",
        };
        let lines = logs::read_log(self.client.clone(), source, query).await?;
        Ok(lines.map_ok(|line| line.text).boxed())
    }

    /// Reads the last lines of a pod's log; empty if they cannot be read in time.
    async fn read_last_lines(&self, pod: &JobPod) -> String {
        let query = LogQuery { tail: Some(LAST_LINES), ..LogQuery::default() };
        let read = async { self.read_log(pod, query).await?.try_collect::<String>().await };
        match tokio::time::timeout(LOG_DEADLINE, read).await {
            Ok(Ok(log)) => log,
            Ok(Err(error)) => {
                tracing::debug!(pod = pod.name, %error, "the log of a job cannot be read");
                String::new()
            }
            Err(_) => String::new(),
        }
    }

    /// Reads the last lines of a pod that is being deleted, until it has ended: its log is deleted with it.
    async fn read_until_end(&self, pod: &JobPod) -> String {
        let query = LogQuery { tail: Some(LAST_LINES), follow: true, ..LogQuery::default() };
        let mut text = String::new();
        let read = async {
            let mut log = self.read_log(pod, query).await?;
            while let Some(lines) = log.try_next().await? {
                text = last_lines(&(std::mem::take(&mut text) + &lines)) + "\n";
            }
            Ok::<(), ProviderError>(())
        };
        // After the time-out, the lines that were read before are returned.
        let _ = tokio::time::timeout(STOP_GRACE + LOG_DEADLINE, read).await;
        text
    }
}

fn waiting_progress(why: &str) -> CommandProgress {
    CommandProgress::Waiting(match why {
        "" => "Its pod is starting.".to_owned(),
        why => format!("Its pod waits: {why}"),
    })
}

/// Returns true if the progress of a command is further than the known one.
fn is_further(known: &CommandProgress, now: &CommandProgress) -> bool {
    match (known, now) {
        (_, CommandProgress::Ended(_)) | (CommandProgress::Waiting(_), CommandProgress::Running(_)) => true,
        (CommandProgress::Waiting(known), CommandProgress::Waiting(now)) => known != now,
        (CommandProgress::Running(_) | CommandProgress::Ended(_), _) => false,
    }
}

#[async_trait]
impl JobRunner for KubernetesJobs {
    async fn admit(&self, spec: &JobSpec, cluster: &Cluster) -> Result<(), ProviderError> {
        if !spec.working_dir.is_empty() {
            let message = "working_dir is only for local processes: add the files to the image";
            return Err(ProviderError::permanent(INVALID, message));
        }
        if is_pod(&cluster.profile_type) {
            let message = "a job runs in the image of its cluster's head, and clusters of single pods have none: submit \
                           it on a cluster of a framework";
            return Err(ProviderError::permanent(INVALID, message));
        }
        Ok(())
    }

    async fn start(&self, call: JobCall<'_>, start: JobStart<'_>) -> Result<CommandProgress, ProviderError> {
        let source = self.operator_clusters.client_source(start.cluster).await?;
        let manifest = manifest::job_manifest(call.job, &source, start.variables);
        let (writer, job, fence) = (self.writer.clone(), call.job.id, call.fence);
        run_detached(async move { writer.create_job(manifest, job, fence).await }).await?;
        Ok(CommandProgress::Waiting("Its pod is being created.".to_owned()))
    }

    async fn adopt(&self, JobCall { job, fence }: JobCall<'_>) -> Result<(), ProviderError> {
        self.writer.adopt_job(&job.namespace, &manifest::object_name(job.id), job.id, fence).await.map(drop)
    }

    async fn advance(&self, job: &Job, known: &CommandProgress) -> Result<CommandProgress, ProviderError> {
        let has_started = matches!(known, CommandProgress::Running(_));
        let further = |now| is_further(known, &now).then_some(now);
        let progress = self.wait_for(job, has_started, further).await?;
        if let (CommandProgress::Waiting(_), CommandProgress::Ended(_)) = (known, &progress)
            && let Some(running) = self.pods.pod_of(job.id, &job.namespace)?.and_then(|pod| pod.running())
        {
            // The command started and ended between two observations: its start is reported first.
            return Ok(running);
        }
        Ok(progress)
    }

    async fn stop(&self, JobCall { job, fence }: JobCall<'_>) -> Result<JobEnd, ProviderError> {
        let (namespace, name) = (job.namespace.as_str(), manifest::object_name(job.id));
        let mut log = String::new();
        if let Some(object) = self.writer.adopt_job(namespace, &name, job.id, fence).await? {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            let pod = self.pods.pod_of(job.id, namespace).ok().flatten();
            let is_running =
                |pod: &JobPod| !pod.is_gone && matches!(pod.state, ContainerProgress::Running(_));
            let deleting = self.writer.delete_job(namespace, &name, uid);
            match pod.filter(is_running) {
                Some(pod) => {
                    let (text, deleted) = futures::join!(self.read_until_end(&pod), deleting);
                    deleted?;
                    log = text;
                }
                None => drop(deleting.await?),
            }
        }
        let ended = |progress| match progress {
            CommandProgress::Ended(end) => Some(end),
            CommandProgress::Waiting(_) | CommandProgress::Running(_) => None,
        };
        let end = self.wait_for(job, job.outputs().started_at.is_some(), ended).await?;
        Ok(if end.log.is_empty() { JobEnd { log, ..end } } else { end })
    }

    async fn logs(&self, job: &Job, query: LogQuery) -> Result<JobLog, ProviderError> {
        match self.pods.pod_of(job.id, &job.namespace)?.filter(|pod| !pod.is_gone) {
            Some(pod) => self.read_log(&pod, query).await,
            None => {
                // The pod was deleted with its Job; only the last lines are stored, in the row of the job.
                let last = job.outputs().last_lines;
                let text = (!last.is_empty()).then(|| Ok(format!("{last}\n")));
                Ok(stream::iter(text).boxed())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::job::CommandEnd;
    use rstest::rstest;

    use super::*;

    fn wait(why: &str) -> CommandProgress {
        CommandProgress::Waiting(why.to_owned())
    }

    fn end() -> CommandProgress {
        let (how, message, log) = (CommandEnd::Unknown, String::new(), String::new());
        CommandProgress::Ended(JobEnd { how, message, log })
    }

    #[rstest]
    #[case::same_reason(wait("a"), wait("a"), false)]
    #[case::another_reason(wait("a"), wait("b"), true)]
    #[case::starts(wait("a"), CommandProgress::Running(None), true)]
    #[case::runs(CommandProgress::Running(None), CommandProgress::Running(None), false)]
    #[case::its_pod_was_deleted(CommandProgress::Running(None), wait("a"), false)]
    #[case::ends(CommandProgress::Running(None), end(), true)]
    #[case::ends_at_once(wait("a"), end(), true)]
    fn a_command_only_gets_further(
        #[case] known: CommandProgress,
        #[case] now: CommandProgress,
        #[case] expected: bool,
    ) {
        assert_eq!(is_further(&known, &now), expected);
    }
}
