//! The port to what nodes use now.

use std::collections::HashMap;

use async_trait::async_trait;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::quantity::{Cpu, Memory};

use crate::ports::provider::{ClusterTarget, ProviderError};

/// What a node uses.
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
    /// What these nodes of a cluster use. A node that does not run, or was not measured yet, is left out.
    async fn measure(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, NodeUsage>, ProviderError>;
}
