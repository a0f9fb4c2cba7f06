//! Receivers: everyone who knows a receiver's address can trigger its change, in the name of its creator.

use muster_core::action::{Action, WEBHOOK_REASON};
use muster_core::change::Change;
use muster_core::ids::{ClusterId, ReceiverId};
use muster_core::principal::Door;
use muster_engine::Caller;
use muster_store::StoreError;
use serde_json::{Map, Value};

use crate::access::{Access, Case, Subject, Verb};
use crate::authorize::Resource;
use crate::error::ServiceError;
use crate::service::Service;

/// What a trigger needs of the receiver's creator.
const TRIGGER: Case = Case::new("trigger", Verb::Change, Subject::Project);

/// Why a receiver was not triggered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// There is no such receiver.
    #[error("the receiver does not exist")]
    NoReceiver,
    /// Its cluster does not exist any more, or its creator may not change it.
    #[error("cluster {0} does not exist")]
    NoCluster(ClusterId),
    /// The change was refused.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for TriggerError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

impl Service {
    /// Submits the change that a receiver is for, in the name of its creator; `given` overrides the receiver's own
    /// parameters.
    pub async fn trigger(&self, id: ReceiverId, given: Map<String, Value>) -> Result<Action, TriggerError> {
        let store = self.engine.store();
        let receiver = store.receiver(id).await?.ok_or(TriggerError::NoReceiver)?;
        let missing = || TriggerError::NoCluster(receiver.cluster_id);
        let cluster = store.cluster(receiver.cluster_id).await?;
        let cluster = cluster.filter(|cluster| cluster.deleted_at.is_none()).ok_or_else(missing)?;
        let on = Resource { what: "cluster", project: &cluster.project, owner: &cluster.owner };
        let access = Access::open(&TRIGGER, receiver.principal.clone());
        access.and_then(|access| access.check(on)).map_err(|_| missing())?;
        let caller = Caller {
            principal: receiver.principal.clone(),
            door: Door::Webhook,
            reason: format!("{WEBHOOK_REASON}{}", receiver.id),
            request: None,
        };
        let mut inputs = receiver.params;
        inputs.extend(given);
        let change = Change::read(receiver.action, &Value::Object(inputs)).map_err(ServiceError::invalid)?;
        Ok(self.change_cluster(&caller, &cluster, change).await?)
    }
}
