//! Placement policies: spread nodes over regions or zones when a cluster grows and shrinks.

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::candidates::{self, Criterion};
use muster_core::node::Node;
use muster_core::placement::{Axis, Placement, Share, grow, shrink};
use muster_core::policy::{Binding, placement};

use crate::intent::placements;
use crate::policy::size_change::{SizeChange, may_add};
use crate::policy::{PolicyContext, PolicyType, victims};

/// The error if caps leave no capacity.
const NO_PLAN: &str = "There is no feasible plan to handle all nodes.";

/// Spreads nodes over regions, or over zones.
pub(crate) struct SpreadPolicy(pub(crate) Axis);

#[async_trait]
impl PolicyType for SpreadPolicy {
    fn kind(&self) -> &'static str {
        match self.0 {
            Axis::Region => "senlin.policy.region_placement-1.0",
            Axis::Zone => "senlin.policy.zone_placement-1.0",
        }
    }

    fn checks(&self, kind: ActionKind) -> bool {
        may_add(kind) || kind == ActionKind::ClusterScaleIn
    }

    async fn attach(&self, binding: &mut Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        require_placement(binding, context)?;
        placement::shares(self.0, &binding.policy).map(drop)
    }

    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let shares = placement::shares(self.0, &binding.policy)?;
        let SizeChange { added, removed } = SizeChange::of(context);
        if added > 0 {
            self.place(&shares, added, context)?;
        }
        if !removed.is_empty() && context.change.named_victims().is_none() {
            self.choose(&shares, &removed, context);
        }
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}

impl SpreadPolicy {
    /// Decides where new nodes run.
    fn place(&self, shares: &[Share], count: u32, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let present: Vec<Placement> =
            candidates::workers(context.nodes, None).map(Placement::from_node).collect();
        let plan = grow(shares, &self.0.count(shares, &present), count).ok_or(NO_PLAN)?;
        let mut new = placements::planned(context.data, count);
        self.0.assign(shares, &plan, &present, &mut new);
        placements::plan(context.data, new);
        *context.data.creation().counts_mut(self.0) = Some(plan);
        Ok(())
    }

    /// Decides from where nodes are removed, and chooses them; a later deletion policy chooses by its own criterion.
    fn choose(&self, shares: &[Share], going: &[(String, usize)], context: &mut PolicyContext<'_>) {
        let goes = |node: &&Node| going.iter().any(|(group, _)| node.group.as_ref() == Some(group));
        let present: Vec<Placement> =
            candidates::workers(context.nodes, None).filter(goes).map(Placement::from_node).collect();
        let have = self.0.count(shares, &present);
        let there: u32 = have.values().sum();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let elsewhere = number(present.len()).saturating_sub(there);
        let count = number(going.iter().map(|(_, count)| count).sum());
        let plan = shrink(shares, &have, elsewhere, count);
        *context.data.deletion().counts_mut(self.0) = Some(plan);
        let chosen = victims::chosen(context, going, Criterion::Random);
        context.data.deletion().candidates = Some(chosen);
    }
}

/// Refuses placement policies where the provider cannot place nodes.
pub(crate) fn require_placement(binding: &Binding, context: &PolicyContext<'_>) -> Result<(), String> {
    if context.capabilities.supports_placement {
        return Ok(());
    }
    let (kind, policy) = (&context.cluster.profile_type, &binding.policy.kind);
    Err(format!("nodes of {kind} cannot be placed by a policy: a policy of type {policy} cannot be attached"))
}
