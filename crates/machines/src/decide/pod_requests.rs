//! The resource requests of a pod, summed as the scheduler sums them.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::amounts::Amounts;

/// The requests of a pod, and its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDemand {
    /// The UID of the pod.
    pub uid: String,
    /// The node of the pod; `None` if the pod is not bound or has ended.
    pub node: Option<String>,
    /// The sum of the pod's requests.
    pub requests: Amounts,
}

impl PodDemand {
    /// Reads a pod.
    pub fn read(pod: &Pod) -> Self {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        let spec = pod.spec.as_ref();
        Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: spec.and_then(|spec| spec.node_name.clone()).filter(|_| !ended),
            requests: spec.map(pod_requests).unwrap_or_default(),
        }
    }
}

/// The sum of a pod's requests, as the scheduler computes it: containers and sidecars together, or the largest init
/// container with the sidecars before it, whichever is more; then the overhead. Requests of the pod as a whole replace
/// those of its containers.
pub fn pod_requests(spec: &PodSpec) -> Amounts {
    let mut total = Amounts::default();
    for container in &spec.containers {
        total.add(&container_requests(container));
    }
    let (mut sidecars, mut initial) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let requests = container_requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&requests);
            initial.raise_to(&sidecars);
        } else {
            let mut together = sidecars.clone();
            together.add(&requests);
            initial.raise_to(&together);
        }
    }
    total.add(&sidecars);
    total.raise_to(&initial);
    if let Some(whole) = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()) {
        for (resource, amount) in Amounts::read(whole).iter() {
            total.set(resource, amount);
        }
    }
    if let Some(overhead) = &spec.overhead {
        total.add(&Amounts::read(overhead));
    }
    total
}

/// Requests default to limits.
fn container_requests(container: &Container) -> Amounts {
    let Some(resources) = &container.resources else { return Amounts::default() };
    let mut requests = Amounts::read(resources.limits.iter().flatten());
    for (resource, amount) in Amounts::read(resources.requests.iter().flatten()).iter() {
        requests.set(resource, amount);
    }
    requests
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;

    fn with(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        let mut sidecar = with("s", cpu);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    }

    #[rstest]
    #[case::sum(json!({"containers": [with("a", "1"), with("b", "500m")]}), 1500)]
    #[case::limits_are_requests(json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]}), 2000)]
    #[case::largest_init(json!({"containers": [with("a", "1")], "initContainers": [with("i", "3"), with("j", "2")]}), 3000)]
    #[case::sidecars_add(json!({"containers": [with("a", "1")], "initContainers": [sidecar("1"), with("i", "3")]}), 4000)]
    #[case::later_sidecars_do_not(json!({"containers": [with("a", "1")], "initContainers": [with("i", "3"), sidecar("1")]}), 3000)]
    #[case::overhead(json!({"containers": [with("a", "1")], "overhead": {"cpu": "250m"}}), 1250)]
    #[case::of_the_pod(json!({"containers": [with("a", "1")], "resources": {"requests": {"cpu": "5"}}}), 5000)]
    fn requests_are_summed_as_the_scheduler_does(#[case] spec: Value, #[case] millis: u64) {
        assert_eq!(pod_requests(&from_value(spec).unwrap()).get("cpu"), millis);
    }
}
