//! An in-memory copy of the pods of jobs, as the watches report them. Only the last report of a deleted pod has its
//! exit status, so the latest deleted pods stay in the cache.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use muster_core::ids::JobId;
use muster_engine::ports::jobs::CommandProgress;
use muster_engine::ports::provider::ProviderError;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::ending;
use super::manifest::CONTAINER;
use crate::containers::{self, ContainerProgress};
use crate::ownership;
use crate::stale_watches::StaleWatches;
use crate::watches::WatchSink;

/// The number of deleted pods that stay in the cache: more than an engine runs jobs.
const MAX_GONE: usize = 4096;

/// The pod of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobPod {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    /// The machine that the pod is scheduled to.
    pub(super) machine: Option<String>,
    pub(super) state: ContainerProgress,
    /// True once the container was observed running, or ended after it had run.
    pub(super) has_started: bool,
    pub(super) status: Option<PodStatus>,
    pub(super) is_gone: bool,
    /// The epoch of the last list or report that contained the pod.
    epoch: u64,
}

impl JobPod {
    /// Returns the progress of the command while it ran; `None` if it never ran.
    pub(super) fn running(&self) -> Option<CommandProgress> {
        let since = match &self.state {
            ContainerProgress::Running(since) => *since,
            ContainerProgress::Ended(ended) => ended.started_at.as_ref().map(containers::timestamp),
            _ => None,
        };
        self.has_started.then_some(CommandProgress::Running(since))
    }
}

#[derive(Default)]
struct JobPodCacheState {
    pods: HashMap<JobId, JobPod>,
    gone: VecDeque<JobId>,
    stale: StaleWatches,
    epoch: u64,
}

/// The pods of all jobs.
pub(super) struct JobPodCache {
    state: Mutex<JobPodCacheState>,
    changes: watch::Sender<()>,
}

/// Returns the job on the label of a pod, if the Job of that job controls the pod. Anyone who may create pods can write
/// the label.
fn job_of(pod: &Pod) -> Option<JobId> {
    let id: JobId = pod.metadata.labels.as_ref()?.get(ownership::JOB)?.parse().ok()?;
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    (controller.kind == "Job" && controller.name == super::manifest::object_name(id)).then_some(id)
}

fn job_pod(pod: Pod, epoch: u64) -> JobPod {
    let state = containers::container_progress(&pod, CONTAINER);
    JobPod {
        has_started: match &state {
            ContainerProgress::Running(_) => true,
            ContainerProgress::Ended(ended) => !ending::is_unrunnable(ended),
            ContainerProgress::Waiting(_) | ContainerProgress::PodFailed(_) => false,
        },
        state,
        name: pod.metadata.name.unwrap_or_default(),
        namespace: pod.metadata.namespace.unwrap_or_default(),
        uid: pod.metadata.uid.unwrap_or_default(),
        machine: pod.spec.and_then(|spec| spec.node_name),
        status: pod.status,
        is_gone: false,
        epoch,
    }
}

impl JobPodCacheState {
    fn insert(&mut self, job: JobId, mut pod: JobPod) {
        if let Some(known) = self.pods.get(&job) {
            if known.uid != pod.uid && known.has_started {
                // A command runs once, in the first pod of its job.
                return;
            }
            pod.has_started |= known.has_started && known.uid == pod.uid;
        }
        let is_gone = pod.is_gone;
        self.pods.insert(job, pod);
        if is_gone {
            self.record_gone(job);
        }
    }

    fn record_gone(&mut self, job: JobId) {
        self.gone.push_back(job);
        if self.gone.len() > MAX_GONE
            && let Some(oldest) = self.gone.pop_front()
            && self.pods.get(&oldest).is_some_and(|pod| pod.is_gone)
        {
            self.pods.remove(&oldest);
        }
    }

    /// Ends the complete list of a namespace, or of all, that began at this epoch: pods that it lacks are gone.
    fn mark_missing(&mut self, namespace: Option<&str>, begun: u64) {
        let is_within = |pod: &JobPod| namespace.is_none_or(|namespace| namespace == pod.namespace);
        let missing =
            self.pods.iter_mut().filter(|(_, pod)| !pod.is_gone && is_within(pod) && pod.epoch < begun);
        let missing: Vec<JobId> = missing
            .map(|(job, pod)| {
                pod.is_gone = true;
                *job
            })
            .collect();
        for job in missing {
            self.record_gone(job);
        }
    }
}

impl JobPodCache {
    /// Creates the cache for the watches of these namespaces (none for all), which have not listed anything yet.
    pub(super) fn new(scopes: &[Option<String>]) -> Self {
        let stale = StaleWatches::new(scopes.iter().cloned().enumerate());
        let state = Mutex::new(JobPodCacheState { stale, ..JobPodCacheState::default() });
        Self { state, changes: watch::Sender::new(()) }
    }

    /// Returns the last reported state of the pod of a job; `None` if the job certainly has no pod.
    pub(super) fn pod_of(&self, job: JobId, namespace: &str) -> Result<Option<JobPod>, ProviderError> {
        let state = self.state.lock();
        match state.pods.get(&job) {
            Some(pod) => Ok(Some(pod.clone())),
            None => state.stale.check(namespace).map(|()| None),
        }
    }

    /// Subscribes to changes of the cache.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn apply_pod(&self, pod: Pod, listed_since: Option<u64>, is_gone: bool) {
        let Some(job) = job_of(&pod) else { return };
        {
            let mut state = self.state.lock();
            let epoch = listed_since.unwrap_or(state.epoch);
            let pod = JobPod { is_gone, ..job_pod(pod, epoch) };
            state.insert(job, pod);
        }
        self.changes.send_replace(());
    }
}

/// Receives the pods of a watch.
pub(super) struct JobPodSink {
    pub(super) pods: Arc<JobPodCache>,
    pub(super) index: usize,
    pub(super) namespace: Option<String>,
}

impl WatchSink<Pod> for JobPodSink {
    fn begin(&self) -> u64 {
        let mut state = self.pods.state.lock();
        state.epoch += 1;
        state.epoch
    }

    fn apply(&self, pod: Pod, listed_since: Option<u64>) {
        self.pods.apply_pod(pod, listed_since, false);
    }

    fn delete(&self, pod: Pod) {
        self.pods.apply_pod(pod, None, true);
    }

    fn synced(&self, begun: u64) {
        {
            let mut state = self.pods.state.lock();
            state.mark_missing(self.namespace.as_deref(), begun);
            state.stale.mark_in_sync(self.index);
        }
        self.pods.changes.send_replace(());
    }

    fn lost(&self, reason: String) {
        self.pods.state.lock().stale.mark_stale(self.index, self.namespace.clone(), reason);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn id() -> JobId {
        "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().expect("an id")
    }

    fn pod(uid: &str, state: &Value) -> Pod {
        let container = json!({
            "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        });
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": super::super::manifest::object_name(id()), "uid": "j",
            "controller": true,
        });
        let metadata = json!({
            "name": "p", "namespace": "demo", "uid": uid, "labels": {ownership::JOB: id().to_string()},
            "ownerReferences": [owner],
        });
        serde_json::from_value(json!({"metadata": metadata, "status": {"containerStatuses": [container]}}))
            .expect("a pod")
    }

    fn pods_and_sink() -> (Arc<JobPodCache>, JobPodSink) {
        let pods = Arc::new(JobPodCache::new(&[None]));
        let sink = JobPodSink { pods: Arc::clone(&pods), index: 0, namespace: None };
        (pods, sink)
    }

    #[test]
    fn before_everything_was_listed_a_missing_pod_is_unknown() {
        let (pods, sink) = pods_and_sink();
        assert!(pods.pod_of(id(), "demo").is_err());
        sink.synced(sink.begin());
        assert_eq!(pods.pod_of(id(), "demo").expect("it is known"), None);
    }

    #[test]
    fn the_end_of_a_deleted_pod_is_known_from_the_last_report_of_it() {
        let (pods, sink) = pods_and_sink();
        sink.apply(pod("1", &json!({"running": {}})), None);
        sink.delete(pod("1", &json!({"terminated": {"exitCode": 143}})));
        let known = pods.pod_of(id(), "demo").expect("it is known").expect("a pod");
        assert!(known.is_gone && matches!(known.state, ContainerProgress::Ended(_)), "{known:?}");
    }

    #[rstest]
    #[case::ran(json!({"exitCode": 0, "reason": "Completed"}), true)]
    #[case::not_found(json!({"exitCode": 128, "reason": "StartError"}), false)]
    fn a_program_that_cannot_be_run_never_ran(#[case] ended: Value, #[case] ran: bool) {
        let (pods, sink) = pods_and_sink();
        sink.apply(pod("1", &json!({"terminated": ended})), None);
        let known = pods.pod_of(id(), "demo").expect("it is known").expect("a pod");
        assert_eq!(known.running(), ran.then_some(CommandProgress::Running(None)));
    }

    #[test]
    fn a_pod_that_a_new_list_lacks_is_gone() {
        let (pods, sink) = pods_and_sink();
        sink.apply(pod("1", &json!({"running": {}})), Some(sink.begin()));
        sink.synced(sink.begin());
        let known = pods.pod_of(id(), "demo").expect("it is known").expect("a pod");
        assert!(known.is_gone && known.has_started, "{known:?}");
    }

    #[test]
    fn a_pod_after_the_one_that_ran_does_not_count() {
        let (pods, sink) = pods_and_sink();
        sink.delete(pod("1", &json!({"terminated": {"exitCode": 7}})));
        sink.apply(pod("2", &json!({"running": {}})), None);
        let known = pods.pod_of(id(), "demo").expect("it is known").expect("a pod");
        assert_eq!(known.uid, "1");
    }

    #[test]
    fn a_pod_that_only_has_the_label_of_a_job_is_none_of_it() {
        let (pods, sink) = pods_and_sink();
        let mut other = pod("1", &json!({"running": {}}));
        other.metadata.owner_references = None;
        sink.apply(other, None);
        sink.synced(sink.begin());
        assert_eq!(pods.pod_of(id(), "demo").expect("it is known"), None);
    }
}
