//! The port that measures what nodes use now.

use std::collections::HashMap;

use async_trait::async_trait;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::quantity::{Cpu, Memory};

use crate::ports::provider::{ClusterTarget, ProviderError};

/// The cpu and memory that a node uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeUsage {
    /// Cpu, on average over the time that was measured.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Memory,
}

/// Measures what nodes use at one provider instance.
#[async_trait]
pub trait NodeMeter: Send + Sync {
    /// Measures these nodes of a cluster. A node that does not run, or was not measured yet, is left out.
    async fn measure(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, NodeUsage>, ProviderError>;
}
