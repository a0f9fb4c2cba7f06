//! Policies: what is asked before an action acts, and told after it has.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use muster_core::action::{Action, ActionKind};
use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_core::policy::Binding;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

/// What a policy sees of an action.
pub struct PolicyContext<'a> {
    /// The action.
    pub action: &'a Action,
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its members.
    pub nodes: &'a [Node],
    /// What policies and the engine leave for each other: `creation`, `deletion`, `placement`, …
    pub data: &'a mut Map<String, Value>,
    /// Now.
    pub now: Timestamp,
}

/// A type of policy.
#[async_trait]
pub trait PolicyType: Send + Sync {
    /// Its name and version, such as `senlin.policy.deletion-1.1`.
    fn kind(&self) -> &str;

    /// Whether it wants to be asked before an action of this kind.
    fn checks(&self, kind: ActionKind) -> bool;

    /// Looks at what is about to happen; an error refuses it, in words.
    async fn before(&self, binding: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String>;

    /// Is told what has happened, also after a failure.
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
}

impl Policies {
    /// Adds a type.
    #[must_use]
    pub fn with(mut self, policy: impl PolicyType + 'static) -> Self {
        self.types.insert(policy.kind().to_owned(), Arc::new(policy));
        self
    }

    /// Asks all bound policies, in the order of their priority; the first refusal ends it.
    pub(crate) async fn before(
        &self,
        bindings: &[Binding],
        mut context: PolicyContext<'_>,
    ) -> Result<(), String> {
        for (binding, policy) in self.asked(bindings, context.action.kind) {
            let refused =
                |why: String| format!("Policy check failure: Failed policy '{}': {why}", binding.policy.name);
            policy.before(binding, &mut context).await.map_err(refused)?;
        }
        Ok(())
    }

    /// Tells all bound policies; every one is told, and the first complaint is the answer.
    pub(crate) async fn after(
        &self,
        bindings: &[Binding],
        mut context: PolicyContext<'_>,
        succeeded: bool,
    ) -> Result<(), String> {
        let mut complaint = Ok(());
        for (binding, policy) in self.asked(bindings, context.action.kind) {
            let told = policy.after(binding, &mut context, succeeded).await;
            complaint = complaint.and(told);
        }
        complaint
    }

    fn asked<'a>(
        &'a self,
        bindings: &'a [Binding],
        kind: ActionKind,
    ) -> impl Iterator<Item = (&'a Binding, &'a Arc<dyn PolicyType>)> {
        bindings
            .iter()
            .filter(|binding| binding.enabled)
            .filter_map(|binding| Some((binding, self.types.get(&binding.policy.kind)?)))
            .filter(move |(_, policy)| policy.checks(kind))
    }
}
