//! Ends the rows of clusters whose instance no engine serves, on a forced delete. Their nodes are unreachable.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::{Event, Level};
use muster_core::ids::InstanceId;
use muster_core::time::TimeSpan;
use muster_store::commands::Abandon;

use crate::admission::request::{Caller, SubmitError};
use crate::context::Engine;
use crate::events::{self, reason};

/// The time that an instance must have been without an engine before its rows may be ended.
const UNSERVED: TimeSpan = TimeSpan::from_secs(600);

impl Engine {
    /// Ends the row of a cluster by force, if its instance has had no engine for `UNSERVED`; does nothing otherwise.
    pub async fn abandon(&self, cluster: &Cluster, caller: &Caller) -> Result<Option<Action>, SubmitError> {
        let (served, now) = self.context.store.last_served(&cluster.instance).await?;
        let unserved_for = served.map(|served| now.since(served));
        let unserved = unserved_for.is_none_or(|span| span > UNSERVED);
        if self.context.provider(&cluster.instance).is_some() || !unserved {
            return Ok(None);
        }
        let at = self.now();
        let message = message(&cluster.instance, unserved_for);
        let action = Action {
            status: ActionStatus::Succeeded,
            status_reason: message.clone(),
            started_at: Some(at),
            applied_at: Some(at),
            ended_at: Some(at),
            ..self.context.action(ActionKind::ClusterDelete, cluster, None, caller)
        };
        let cluster = Cluster {
            status: ClusterStatus::Deleted,
            status_reason: message.clone(),
            updated_at: Some(at),
            deleted_at: Some(at),
            ..cluster.clone()
        };
        let event = Event {
            level: Level::Warn,
            reason: reason::INSTANCE_ABANDONED.to_owned(),
            ..events::of_action(&action, &cluster, "end", &message, at)
        };
        Ok(Some(self.context.store.abandon(Abandon { cluster, action, events: vec![event] }).await?))
    }
}

/// Returns the reason why a row is ended; an instance that no engine ever served has no time.
fn message(instance: &InstanceId, unserved_for: Option<TimeSpan>) -> String {
    let why = match unserved_for {
        Some(span) => format!(
            "no engine has served '{instance}' for {} minutes, and after {} its clusters can be deleted by force",
            minutes(span),
            minutes(UNSERVED)
        ),
        None => format!("no engine has ever served '{instance}'"),
    };
    format!("{why}: remove by hand what still runs there")
}

const fn minutes(span: TimeSpan) -> i64 {
    span.secs() / 60
}
