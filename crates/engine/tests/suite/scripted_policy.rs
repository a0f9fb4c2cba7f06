//! A policy whose decisions a test scripts.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use muster_core::action::ActionKind;
use muster_core::ids::{BindingId, ClusterId, PolicyId};
use muster_core::policy::{Binding, Policy};
use muster_engine::policy::{PolicyContext, PolicyType};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::harness::{Harness, now};

const TYPE: &str = "test.saying-1.0";

/// Adds these values to the data of every action before it runs.
#[derive(Clone, Default)]
pub(crate) struct ScriptedPolicy(Arc<Mutex<Map<String, Value>>>);

impl ScriptedPolicy {
    /// Sets the values that the policy adds from now on.
    pub(crate) fn say(&self, words: &Value) {
        *self.0.lock().expect("not poisoned") = words.as_object().cloned().expect("a map");
    }

    /// Binds the policy to a cluster.
    pub(crate) async fn bind(&self, harness: &Harness, cluster: ClusterId) {
        let policy = Policy {
            id: PolicyId::from_uuid(Uuid::now_v7()),
            name: "saying".to_owned(),
            kind: TYPE.to_owned(),
            project: "demo".to_owned(),
            user: "ann".to_owned(),
            spec: Map::new(),
            data: Map::new(),
            created_at: now(),
            updated_at: None,
        };
        let binding = Binding {
            id: BindingId::from_uuid(Uuid::now_v7()),
            cluster_id: cluster,
            policy,
            enabled: true,
            priority: 400,
            data: Map::new(),
            last_op: None,
        };
        harness.store().bind(binding).await.expect("it is bound");
    }
}

#[async_trait]
impl PolicyType for ScriptedPolicy {
    fn kind(&self) -> &'static str {
        TYPE
    }

    fn checks(&self, _: ActionKind) -> bool {
        true
    }

    async fn before(&self, _: &Binding, context: &mut PolicyContext<'_>) -> Result<(), String> {
        let Ok(Value::Object(mut data)) = serde_json::to_value(&*context.data) else { return Ok(()) };
        data.extend(self.0.lock().expect("not poisoned").clone());
        *context.data = serde_json::from_value(Value::Object(data)).expect("data of an action");
        Ok(())
    }

    async fn after(&self, _: &Binding, _: &mut PolicyContext<'_>, _: bool) -> Result<(), String> {
        Ok(())
    }
}
