//! Clusters whose instance no engine serves: a forced delete ends their rows. Their nodes cannot be reached.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::{Event, Level};
use muster_core::time::TimeSpan;
use muster_store::commands::Abandon;

use crate::admission::request::{Caller, SubmitError};
use crate::context::Engine;
use crate::events::{self, reason};

/// How long an instance has to be without an engine before its rows may be ended.
const UNSERVED: TimeSpan = TimeSpan::from_secs(600);

impl Engine {
    /// Ends the row of a cluster by force, if its instance has had no engine for ten minutes; nothing otherwise.
    pub async fn abandon(&self, cluster: &Cluster, caller: &Caller) -> Result<Option<Action>, SubmitError> {
        let (served, now) = self.context.store.last_served(&cluster.instance).await?;
        let unserved = served.is_none_or(|served| now.since(served) > UNSERVED);
        if self.context.provider(&cluster.instance).is_some() || !unserved {
            return Ok(None);
        }
        let at = self.now();
        let message = format!(
            "no engine has served '{}' for 10 minutes: what runs there is not ended",
            cluster.instance
        );
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
