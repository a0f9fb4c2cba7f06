//! Batch policies: limit the number of nodes that are updated at the same time.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::check_wait;
use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, PolicyVersion, Since, Support, settings};
use crate::ids::NodeId;
use crate::node::{Node, NodeStatus};
use crate::spec::{Property, Schema};

/// The batch policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.batch",
    versions: &[PolicyVersion { number: "1.0", support: &[Since(Support::Experimental, "2017.02")] }],
    priority: 200,
    singleton: true,
    profile_types: None,
    schema: SCHEMA,
    check: Some(check),
};

const SCHEMA: Schema = Schema(&[
    (
        "min_in_service",
        Property::integer("The minimum number of nodes that stay in service during the update.")
            .default_int(1),
    ),
    (
        "max_batch_size",
        Property::integer("The maximum number of nodes in a batch; -1 means unlimited.").default_int(-1),
    ),
    ("pause_time", Property::integer("Seconds between two batches.").default_int(60)),
]);

/// The settings of a batch policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct BatchPolicySettings {
    /// The number of nodes that stay in service.
    pub min_in_service: i64,
    /// The largest batch; -1 is no bound.
    pub max_batch_size: i64,
    /// The pause after each batch, in seconds.
    pub pause_time: i64,
}

fn check(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    let BatchPolicySettings { min_in_service, max_batch_size, pause_time } = settings(properties)?;
    let rules = [
        (min_in_service >= 0, "the 'min_in_service' must be >= 0"),
        (max_batch_size == -1 || max_batch_size > 0, "the 'max_batch_size' must be > 0, or -1 for unlimited"),
    ];
    match rules.iter().find(|(kept, _)| !kept) {
        Some((_, words)) => Err(InvalidPolicy::Invalid((*words).to_owned())),
        None => check_wait("'pause_time'", pause_time),
    }
}

impl BatchPolicySettings {
    /// Splits members into batches. Nodes that do not work come first, so that as many nodes as possible stay in
    /// service.
    pub fn plan<'n>(&self, members: impl IntoIterator<Item = &'n Node>) -> Vec<Vec<NodeId>> {
        let (good, bad): (Vec<&Node>, Vec<&Node>) =
            members.into_iter().partition(|node| node.status == NodeStatus::Active);
        let ids: Vec<NodeId> = bad.into_iter().chain(good).map(|node| node.id).collect();
        ids.chunks(self.batch_size(ids.len())).map(<[NodeId]>::to_vec).collect()
    }

    fn batch_size(&self, total: usize) -> usize {
        let kept = usize::try_from(self.min_in_service).unwrap_or(0);
        let size = if total > kept { total - kept } else { total.div_ceil(2) };
        let most = usize::try_from(self.max_batch_size).unwrap_or(usize::MAX);
        size.min(most).max(1)
    }
}
