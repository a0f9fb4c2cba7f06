//! Measurement of the CPU and memory that nodes use: the sums over all processes below the shim of each node.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::quantity::{Cpu, Memory};
use muster_engine::ports::node_meter::{NodeMeter, NodeUsage};
use muster_engine::ports::provider::{ClusterTarget, ProviderError};

use super::{LocalProvider, ProcessHost, on_disk};
use crate::shim::NodeProcessState;
use crate::sys::ProcessTable;

/// The time between two readings of CPU times. It is much longer than the unit of those times, 10 ms, and short enough
/// for a waiting caller.
const BETWEEN: Duration = Duration::from_millis(500);

#[async_trait]
impl NodeMeter for LocalProvider {
    async fn measure(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, NodeUsage>, ProviderError> {
        let shims = self.inner.living_shims(target, nodes)?;
        if shims.is_empty() {
            return Ok(HashMap::new());
        }
        let begin = Instant::now();
        let before = read_table().await?;
        tokio::time::sleep(BETWEEN).await;
        let (now, elapsed) = (read_table().await?, begin.elapsed());
        let usage = |(node, shim): (NodeId, i32)| (node, usage(now.used_below(shim, &before), elapsed));
        Ok(shims.into_iter().map(usage).collect())
    }
}

impl ProcessHost {
    fn living_shims(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<Vec<(NodeId, i32)>, ProviderError> {
        let mut shims = Vec::with_capacity(nodes.len());
        for node in nodes {
            let found = self.shims.inspect(&self.node_folder(target, node.id));
            let found = found.map_err(|error| on_disk("a node's folder cannot be read", &error))?;
            if let NodeProcessState::Running(running) = found {
                shims.push((node.id, running.state().shim.pid));
            }
        }
        Ok(shims)
    }
}

async fn read_table() -> Result<ProcessTable, ProviderError> {
    tokio::task::spawn_blocking(ProcessTable::read)
        .await
        .map_err(|error| on_disk("the processes of this machine cannot be read", &error))
}

/// Converts CPU milliseconds that were used in `elapsed` to thousandths of a core, and memory from bytes.
fn usage((cpu_ms, memory): (u64, u64), elapsed: Duration) -> NodeUsage {
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    NodeUsage {
        cpu: Cpu::from_millis(cpu_ms.saturating_mul(1_000) / elapsed),
        memory: Memory::from_bytes(memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_shown_in_parts_of_a_core() {
        let used = usage((250, 7), Duration::from_millis(500));
        assert_eq!(used, NodeUsage { cpu: Cpu::from_millis(500), memory: Memory::from_bytes(7) });
        assert_eq!(usage((0, 0), Duration::ZERO), NodeUsage::default());
    }
}
