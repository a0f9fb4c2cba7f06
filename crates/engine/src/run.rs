//! One claimed action, in parts: its subject, the content of its next commit, and its interruptions.
//!
//! Functions take only the part that they need. Those that commit or call the provider, and the strategies of
//! `reconcile`, take the whole run.

mod children;
mod commit;
mod control;
mod journal;
mod load;
mod members;
mod provider;
mod requested;
#[cfg(test)]
pub(crate) mod sample;
mod slot;
mod stop;
mod subject;
mod world;

use std::sync::Arc;

use muster_core::action::Action;
use muster_core::change::Change;
use muster_core::time::Timestamp;
use muster_core::usage::RequestedAmounts;
use muster_store::reads;

use crate::action_data::ActionData;
use crate::context::Context;
use crate::lease::Lease;
use crate::notify::Topic;
use crate::ports::provider::Provider;

pub(crate) use children::{Children, excluded};
pub(crate) use control::{RunControl, time_left};
pub(crate) use journal::Journal;
pub(crate) use members::Members;
pub(crate) use slot::Slot;
pub(crate) use stop::{Stop, succeeded, summarize};
pub(crate) use subject::RunSubject;
pub(crate) use world::WorldChanges;

/// An action that this engine claimed, and everything that its execution needs.
pub(crate) struct ActionRun {
    pub(crate) context: Arc<Context>,
    /// The action as it was claimed.
    pub(crate) action: Arc<Action>,
    /// The change that the action makes.
    pub(crate) change: Change,
    /// Data that policies and steps exchange.
    pub(crate) data: ActionData,
    /// The cluster and its members, with pending changes of their rows.
    pub(crate) subject: RunSubject,
    /// The amounts that the cluster requested before the action, if they are known.
    pub(crate) requested_before: Option<RequestedAmounts>,
    /// The child actions by node, with pending ends.
    pub(crate) children: Children,
    /// Pending events and changes of bindings.
    pub(crate) journal: Journal,
    /// The interruptions of the action, and the slot that it occupies.
    pub(crate) control: RunControl,
    pub(crate) provider: Arc<dyn Provider>,
    /// Changes that the provider reports for the cluster.
    pub(crate) world: WorldChanges,
}

impl ActionRun {
    /// Reads everything that a claimed action needs, except for what came with the claim.
    pub(crate) async fn load(
        context: &Arc<Context>,
        lease: &Arc<Lease>,
        slot: Option<Slot>,
        action: Action,
        taken_over: bool,
        claimed: Option<reads::ClusterWithProfile>,
    ) -> Result<Self, Stop> {
        let action = Arc::new(action);
        let control = RunControl::new(context, lease, &action, slot);
        let change = Change::read(action.kind, &action.inputs).map_err(Stop::Failed)?;
        let provider = context.provider(&action.instance).ok_or_else(|| {
            Stop::Failed(format!("no provider serves '{}' in this engine", action.instance))
        })?;
        let subject = RunSubject::load(context, provider.as_ref(), &action, taken_over, claimed).await?;
        let stored = subject.stored.then_some(subject.cluster.id);
        let children = Children::load(context, &action, stored, taken_over).await?;
        let world = WorldChanges::new(context.notifier.subscribe(Topic::World(subject.cluster.id)));
        Ok(Self {
            context: Arc::clone(context),
            data: ActionData::read(&action.data),
            change,
            requested_before: requested::before(&action, &subject),
            subject,
            journal: Journal::new(Arc::clone(&action)),
            action,
            children,
            control,
            provider,
            world,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }
}
