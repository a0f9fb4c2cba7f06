//! The resources that all nodes of a cluster request together.

use muster_core::quantity::{Cpu, Memory};
use muster_proto::v1alpha2::{Cluster, Shape};

/// Sums cpu, memory and gpu of head and workers by their shapes; an amount that no shape gives is empty.
pub(super) fn requested(cluster: &Cluster) -> [String; 3] {
    let (mut cpu, mut memory, mut gpu) = (None::<u64>, None::<u64>, None::<u64>);
    let mut add = |shape: &Shape, nodes: u64| {
        let amounts = [
            (&mut cpu, shape.cpu.parse::<Cpu>().ok().map(Cpu::millis)),
            (&mut memory, shape.memory.parse::<Memory>().ok().map(Memory::bytes)),
            (&mut gpu, shape.gpu.map(u64::from)),
        ];
        for (sum, amount) in amounts {
            if let Some(amount) = amount {
                *sum = Some(sum.unwrap_or(0).saturating_add(amount.saturating_mul(nodes)));
            }
        }
    };
    let spec = cluster.cluster_spec.as_ref();
    if let Some(shape) = spec.and_then(|spec| spec.head_group_spec.as_ref()?.shape.as_ref()) {
        add(shape, 1);
    }
    for group in spec.into_iter().flat_map(|spec| &spec.worker_group_spec) {
        if let Some(shape) = &group.shape {
            add(shape, u64::try_from(group.replicas).unwrap_or(0));
        }
    }
    [
        cpu.map(|millis| Cpu::from_millis(millis).to_string()).unwrap_or_default(),
        memory.map(|bytes| Memory::from_bytes(bytes).rounded()).unwrap_or_default(),
        gpu.map(|count| count.to_string()).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use muster_proto::v1alpha2::{ClusterSpec, HeadGroupSpec, WorkerGroupSpec};

    use super::*;

    fn shape(cpu: &str, memory: &str, gpu: Option<u32>) -> Shape {
        Shape { cpu: cpu.to_owned(), memory: memory.to_owned(), gpu, ..Shape::default() }
    }

    #[test]
    fn amounts_are_summed_over_head_and_workers() {
        let group = |replicas, shape| WorkerGroupSpec { replicas, shape, ..WorkerGroupSpec::default() };
        let spec = ClusterSpec {
            head_group_spec: Some(HeadGroupSpec {
                shape: Some(shape("500m", "1Gi", None)),
                ..HeadGroupSpec::default()
            }),
            worker_group_spec: vec![
                group(2, Some(shape("2", "4Gi", Some(1)))),
                group(3, None),
                group(-1, Some(shape("9", "", None))),
            ],
            ..ClusterSpec::default()
        };
        let cluster = Cluster { cluster_spec: Some(spec), ..Cluster::default() };
        assert_eq!(requested(&cluster), ["4500m", "9Gi", "2"]);
        assert_eq!(requested(&Cluster::default()), ["", "", ""]);
    }
}
