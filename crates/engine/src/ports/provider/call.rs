//! The targets of calls to a provider.

use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::profile::Profile;

/// The target of a read.
#[derive(Debug, Clone, Copy)]
pub struct ClusterTarget<'a> {
    /// The cluster as it should be.
    pub cluster: &'a Cluster,
    /// The recipe of its nodes.
    pub profile: &'a Profile,
}

/// The target of a write, with the fence that protects it.
#[derive(Debug, Clone, Copy)]
pub struct FencedCall<'a> {
    /// The cluster as it should be.
    pub cluster: &'a Cluster,
    /// The recipe of its nodes.
    pub profile: &'a Profile,
    /// The fence of the action behind the call.
    pub fence: Fence,
}

impl<'a> FencedCall<'a> {
    /// Returns the same target for a read.
    pub const fn target(&self) -> ClusterTarget<'a> {
        ClusterTarget { cluster: self.cluster, profile: self.profile }
    }
}
