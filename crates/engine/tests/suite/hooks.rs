//! Lifecycle hooks: members are removed after a confirmation or a timeout.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use muster_core::action::{Action, ActionKind, ActionStatus, Cause};
use muster_core::cluster::Cluster;
use muster_core::ids::ActionId;
use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_engine::ports::webhook::Webhooks;
use muster_store::reads::EventQuery;
use muster_testkit::fake::Verb;
use muster_testkit::{ManualClock, database_test, eventually};
use serde_json::{Value, json};

use crate::harness::{Harness, Kind, PATIENCE, setup};
use crate::scripted_policy::ScriptedPolicy;

/// Records messages; the first one gets lost.
#[derive(Default)]
struct Recorder {
    received: Mutex<Vec<Value>>,
    lost: Mutex<bool>,
    /// Messages in flight, and the maximum so far.
    under_way: Mutex<(usize, usize)>,
}

#[async_trait]
impl Webhooks for Recorder {
    async fn post(&self, url: &str, message: &Value) -> Result<(), String> {
        assert_eq!(url, "http://hook/");
        self.count(|now, most| (now + 1, most.max(now + 1)));
        tokio::task::yield_now().await;
        self.count(|now, most| (now - 1, most));
        if !std::mem::replace(&mut *self.lost.lock().expect("not poisoned"), true) {
            return Err("it got lost".to_owned());
        }
        self.received.lock().expect("not poisoned").push(message.clone());
        Ok(())
    }
}

impl Recorder {
    fn count(&self, step: impl Fn(usize, usize) -> (usize, usize)) {
        let mut under_way = self.under_way.lock().expect("not poisoned");
        *under_way = step(under_way.0, under_way.1);
    }

    /// Returns when a number of different tokens was received.
    async fn tokens(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} different tokens"), PATIENCE, async || {
            let mut tokens: Vec<Value> = Vec::new();
            for message in self.received.lock().expect("not poisoned").iter() {
                let token = message["lifecycle_action_token"].clone();
                if !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
            if tokens.len() >= count { Ok(tokens) } else { Err(format!("{tokens:?}")) }
        })
        .await
    }
}

fn hook() -> Value {
    json!({"hooks": {"type": "webhook", "timeout": 60, "params": {"url": "http://hook/"}}})
}

struct HookScenario {
    harness: Harness,
    clock: ManualClock,
    recorder: Arc<Recorder>,
    cluster: Cluster,
}

impl HookScenario {
    async fn open(kind: Kind) -> Option<Self> {
        Self::of(kind, 3).await
    }

    async fn of(kind: Kind, workers: u32) -> Option<Self> {
        let (clock, saying, recorder) = (ManualClock::default(), ScriptedPolicy::default(), Arc::default());
        let policies = Policies::default().with(saying.clone());
        let mut harness = setup().clock(&clock).policies(policies.clone()).open(kind).await?;
        let (cluster, _) = harness.created(workers).await;
        saying.bind(&harness, cluster.id).await;
        saying.say(&hook());
        harness.engine.stop().await;
        harness.engine = setup()
            .clock(&clock)
            .policies(policies)
            .hooks(&recorder)
            .start(harness.store().clone(), &harness)
            .await;
        Some(Self { harness, clock, recorder, cluster })
    }

    async fn scale_in(&self) -> ActionId {
        self.scale_in_by(2).await
    }

    async fn scale_in_by(&self, count: u32) -> ActionId {
        self.harness.submit(ActionKind::ClusterScaleIn, &self.cluster, json!({"count": count})).await
    }

    async fn parts(&self, action: ActionId) -> Vec<Action> {
        self.harness.children(action).await
    }

    async fn complete(&self, token: &Value) -> ActionId {
        let token: ActionId = serde_json::from_value(token.clone()).expect("an id");
        self.harness.engine.complete_lifecycle(token).await.expect("it is there");
        token
    }
}

#[database_test]
async fn a_confirmed_member_is_removed_also_after_a_take_over(mut scenario: HookScenario) {
    let action = scenario.scale_in().await;
    let tokens = scenario.recorder.tokens(2).await;
    let parts = scenario.parts(action).await;
    let waits = |part: &Action| {
        part.status == ActionStatus::WaitingLifecycleCompletion && part.cause == Cause::DerivedWithHook
    };
    assert!(parts.len() == 2 && parts.iter().all(waits), "{parts:?}");
    assert_eq!(scenario.harness.provider.count(Verb::Stop), 0);
    let first = scenario.complete(&tokens[0]).await;
    scenario.harness.until(first, ActionStatus::Succeeded).await;
    assert_eq!(scenario.harness.nodes(scenario.cluster.id).await.len(), 2, "the other one went too, or none");
    scenario.harness.engine.stop().await;
    scenario.recorder.received.lock().expect("not poisoned").clear();
    let policies = Policies::default().with(ScriptedPolicy::default());
    scenario.harness.engine = setup()
        .clock(&scenario.clock)
        .policies(policies)
        .hooks(&scenario.recorder)
        .start(scenario.harness.store().clone(), &scenario.harness)
        .await;
    assert_eq!(scenario.recorder.tokens(1).await, [tokens[1].clone()], "another token, or one that is done");
    scenario.complete(&tokens[1]).await;
    let ended = scenario.harness.ended(action).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    scenario.complete(&tokens[1]).await;
    scenario.harness.assert_agreement(scenario.cluster.id).await;
    assert_eq!(scenario.harness.cluster(scenario.cluster.id).await.desired(), 1);
}

#[database_test]
async fn members_are_removed_after_the_hook_timeout(scenario: HookScenario) {
    let action = scenario.scale_in().await;
    scenario.recorder.tokens(2).await;
    scenario.clock.advance(TimeSpan::from_secs(59));
    assert_eq!(scenario.harness.provider.count(Verb::Stop), 0);
    scenario.clock.advance(TimeSpan::from_secs(2));
    assert_eq!(scenario.harness.ended(action).await.status, ActionStatus::Succeeded);
    scenario.harness.assert_agreement(scenario.cluster.id).await;
}

#[database_test]
async fn an_unknown_token_is_not_found(harness: Harness) {
    let unknown = ActionId::from_uuid(uuid::Uuid::now_v7());
    let refused = harness.engine.complete_lifecycle(unknown).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("the action '{unknown}' could not be found"));
}

#[database_test(|kind| HookScenario::of(kind, 20))]
async fn messages_are_sent_a_few_at_a_time_and_failures_are_events(scenario: HookScenario) {
    let action = scenario.scale_in_by(20).await;
    assert_eq!(scenario.recorder.tokens(20).await.len(), 20);
    let (_, most) = *scenario.recorder.under_way.lock().expect("not poisoned");
    assert!((2..=8).contains(&most), "{most} at once");
    let query = EventQuery { cluster: Some(scenario.cluster.id), ..EventQuery::default() };
    let events = scenario.harness.store().events(&query).await.expect("the store answers").items;
    let received: Vec<&str> = events
        .iter()
        .filter(|event| event.reason == "HookNotDelivered")
        .map(|event| &*event.message)
        .collect();
    assert_eq!(
        received,
        ["nodes wait for their removal, because the lifecycle hook could not be delivered: it got lost"]
    );
    scenario.clock.advance(TimeSpan::from_secs(61));
    assert_eq!(scenario.harness.ended(action).await.status, ActionStatus::Succeeded);
    scenario.harness.assert_agreement(scenario.cluster.id).await;
}
