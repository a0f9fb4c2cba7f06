//! Policies: hooks before and after an action.

pub(crate) mod affinity;
pub(crate) mod batch;
pub(crate) mod deletion;
pub(crate) mod effects;
pub(crate) mod health;
pub(crate) mod loadbalance;
pub(crate) mod placement;
pub(crate) mod scaling;
pub(crate) mod size_change;
pub(crate) mod victims;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::action::{Action, ActionKind};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_core::placement::Axis;
use muster_core::policy::{self, Binding, PolicyKind};
use muster_core::time::Timestamp;

pub use crate::policy::effects::Effects;
pub(crate) use crate::policy::effects::set_or_remove;

use crate::action_data::ActionData;
use crate::ports::probe::Probe;
use crate::ports::provider::Capabilities;
use crate::ports::webhook::Webhooks;

/// The view that a policy has of an action.
pub struct PolicyContext<'a> {
    /// The action.
    pub action: &'a Action,
    /// The change that the action makes.
    pub change: &'a Change,
    /// The cluster that the policy is attached to.
    pub cluster: &'a Cluster,
    /// The members of the cluster.
    pub nodes: &'a [Node],
    /// The provider's capabilities for the cluster.
    pub capabilities: Capabilities,
    /// Returns the time when a node's profile was created.
    pub profile_created_at: Box<dyn Fn(&Node) -> Timestamp + Send + Sync + 'a>,
    /// The probe that polls nodes by URL, if there is one.
    pub probe: Option<&'a dyn Probe>,
    /// The port that sends webhooks before nodes are removed.
    pub hooks: &'a dyn Webhooks,
    /// The most nodes that any cluster may have.
    pub limit: u32,
    /// Data that policies and the engine exchange.
    pub data: &'a mut ActionData,
    /// Changes that are written with the action's next commits.
    pub effects: &'a mut Effects,
    /// The current time.
    pub now: Timestamp,
}

/// A type of policy.
#[async_trait]
pub trait PolicyType: Send + Sync {
    /// Returns the name and version of the type, such as `senlin.policy.deletion-1.1`.
    fn kind(&self) -> &str;

    /// Returns true if policies of this type check actions of this kind.
    fn checks(&self, kind: ActionKind) -> bool;

    /// Checks and prepares an attachment, and may store data with the binding; an error refuses it.
    async fn attach(&self, _: &mut Binding, _: &mut PolicyContext<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Undoes an attachment; an error refuses it.
    async fn detach(&self, _: &Binding, _: &mut PolicyContext<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Runs before an action; an error refuses the action.
    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String>;

    /// Runs after an action, also after a failure.
    async fn after(
        &self,
        binding: &Binding,
        context: &mut PolicyContext<'_>,
        succeeded: bool,
    ) -> Result<(), String>;
}

/// The policy types that an engine knows.
#[derive(Clone, Default)]
pub struct Policies {
    types: HashMap<String, Arc<dyn PolicyType>>,
    probe: Option<Arc<dyn Probe>>,
}

impl Policies {
    /// Returns all policy types that Muster implements.
    pub fn standard() -> Self {
        let types: [(&PolicyKind, Arc<dyn PolicyType>); 8] = [
            (&policy::affinity::KIND, Arc::new(affinity::AffinityPolicy)),
            (&policy::batch::KIND, Arc::new(batch::BatchPolicy)),
            (&policy::deletion::KIND, Arc::new(deletion::DeletionPolicy)),
            (&policy::health::KIND, Arc::new(health::HealthPolicy)),
            (&policy::loadbalance::KIND, Arc::new(loadbalance::LoadBalancePolicy)),
            (&policy::placement::REGION, Arc::new(placement::SpreadPolicy(Axis::Region))),
            (&policy::placement::ZONE, Arc::new(placement::SpreadPolicy(Axis::Zone))),
            (&policy::scaling::KIND, Arc::new(scaling::ScalingPolicy)),
        ];
        let mut all = Self::default();
        for (kind, policy) in types {
            for version in kind.versions {
                all.types.insert(format!("{}-{}", kind.name, version.number), Arc::clone(&policy));
            }
        }
        all
    }

    /// Sets the probe by which nodes are polled.
    #[must_use]
    pub fn with_probe(mut self, probe: Arc<dyn Probe>) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Returns the probe that polls nodes by URL, if there is one.
    pub(crate) fn probe(&self) -> Option<&dyn Probe> {
        self.probe.as_deref()
    }

    /// Returns the policy type of this name and version.
    pub(crate) fn get(&self, kind: &str) -> Option<Arc<dyn PolicyType>> {
        self.types.get(kind).cloned()
    }

    /// Adds a policy type, or replaces the one of the same name and version.
    #[must_use]
    pub fn with(mut self, policy: impl PolicyType + 'static) -> Self {
        self.types.insert(policy.kind().to_owned(), Arc::new(policy));
        self
    }

    /// Runs all bound policies in the order of their priority; stops at the first refusal.
    pub(crate) async fn before(
        &self,
        bindings: &[Binding],
        mut context: PolicyContext<'_>,
    ) -> Result<(), String> {
        for (binding, policy) in self.checking(bindings, context.change) {
            let refused =
                |why: String| format!("Policy check failure: Failed policy '{}': {why}", binding.policy.name);
            policy.before(binding, &mut context).await.map_err(refused)?;
        }
        Ok(())
    }

    /// Runs all bound policies; returns the first error.
    pub(crate) async fn after(
        &self,
        bindings: &[Binding],
        mut context: PolicyContext<'_>,
        succeeded: bool,
    ) -> Result<(), String> {
        let mut first_error = Ok(());
        for (binding, policy) in self.checking(bindings, context.change) {
            let result = policy.after(binding, &mut context, succeeded).await;
            first_error = first_error.and(result);
        }
        first_error
    }

    /// Returns the enabled policies that check a change.
    fn checking<'a>(
        &'a self,
        bindings: &'a [Binding],
        change: &Change,
    ) -> impl Iterator<Item = (&'a Binding, &'a Arc<dyn PolicyType>)> {
        let kind = change.kind();
        // An update may change sizes too: then policies that check a resize apply as well.
        let resizes = kind == ActionKind::ClusterUpdate && change.resizes();
        bindings
            .iter()
            .filter(|binding| binding.enabled)
            .filter_map(|binding| Some((binding, self.types.get(&binding.policy.kind)?)))
            .filter(move |(_, policy)| {
                policy.checks(kind) || resizes && policy.checks(ActionKind::ClusterResize)
            })
    }
}
