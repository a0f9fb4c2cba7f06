//! Members go once somebody has said so, or has been silent for long enough.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use muster_core::action::{Action, ActionKind, ActionStatus, Cause};
use muster_core::cluster::Cluster;
use muster_core::ids::ActionId;
use muster_core::time::Span;
use muster_engine::policy::Policies;
use muster_engine::ports::webhook::Hooks;
use muster_store::reads::EventQuery;
use muster_testkit::fake::Verb;
use muster_testkit::{ManualClock, eventually};
use rstest::rstest;
use serde_json::{Value, json};

use crate::fixture::{self, Fixture, Kind, PATIENCE};
use crate::saying::Saying;

/// Remembers what it is told; the first message gets lost.
#[derive(Default)]
struct Recorder {
    told: Mutex<Vec<Value>>,
    lost: Mutex<bool>,
    /// Messages that are being told, and the most that ever were at once.
    under_way: Mutex<(usize, usize)>,
}

#[async_trait]
impl Hooks for Recorder {
    async fn post(&self, url: &str, message: &Value) -> Result<(), String> {
        assert_eq!(url, "http://hook/");
        self.count(|now, most| (now + 1, most.max(now + 1)));
        tokio::task::yield_now().await;
        self.count(|now, most| (now - 1, most));
        if !std::mem::replace(&mut *self.lost.lock().expect("not poisoned"), true) {
            return Err("it got lost".to_owned());
        }
        self.told.lock().expect("not poisoned").push(message.clone());
        Ok(())
    }
}

impl Recorder {
    fn count(&self, step: impl Fn(usize, usize) -> (usize, usize)) {
        let mut under_way = self.under_way.lock().expect("not poisoned");
        *under_way = step(under_way.0, under_way.1);
    }

    /// Returns when so many different tokens were told.
    async fn tokens(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} different tokens"), PATIENCE, async || {
            let mut tokens: Vec<Value> = Vec::new();
            for message in self.told.lock().expect("not poisoned").iter() {
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

struct Scene {
    world: Fixture,
    clock: ManualClock,
    recorder: Arc<Recorder>,
    cluster: Cluster,
}

impl Scene {
    async fn open(kind: Kind) -> Option<Self> {
        Self::of(kind, 3).await
    }

    async fn of(kind: Kind, workers: u32) -> Option<Self> {
        let (clock, saying, recorder) = (ManualClock::default(), Saying::default(), Arc::default());
        let policies = Policies::default().with(saying.clone());
        let mut world = Fixture::open_policed(kind, &clock, policies.clone()).await?;
        let (cluster, _) = world.created(workers).await;
        saying.bind(&world, cluster.id).await;
        saying.say(&hook());
        world.engine.stop().await;
        world.engine = fixture::engine_hooked(&clock, &world, policies, &recorder).await;
        Some(Self { world, clock, recorder, cluster })
    }

    async fn scale_in(&self) -> ActionId {
        self.scale_in_by(2).await
    }

    async fn scale_in_by(&self, count: u32) -> ActionId {
        self.world.submit(ActionKind::ClusterScaleIn, &self.cluster, json!({"count": count})).await
    }

    async fn parts(&self, action: ActionId) -> Vec<Action> {
        self.world.children(action).await
    }

    async fn complete(&self, token: &Value) -> ActionId {
        let token: ActionId = serde_json::from_value(token.clone()).expect("an id");
        self.world.engine.complete_lifecycle(token).await.expect("it is there");
        token
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_member_goes_when_somebody_says_so_whoever_goes_on_meanwhile(#[case] kind: Kind) {
    let Some(mut scene) = Scene::open(kind).await else { return };
    let action = scene.scale_in().await;
    let tokens = scene.recorder.tokens(2).await;
    let parts = scene.parts(action).await;
    let waits = |part: &Action| {
        part.status == ActionStatus::WaitingLifecycleCompletion && part.cause == Cause::DerivedWithHook
    };
    assert!(parts.len() == 2 && parts.iter().all(waits), "{parts:?}");
    assert_eq!(scene.world.world.count(Verb::Stop), 0);
    let first = scene.complete(&tokens[0]).await;
    scene.world.until(first, ActionStatus::Succeeded).await;
    assert_eq!(scene.world.nodes(scene.cluster.id).await.len(), 2, "the other one went too, or none");
    scene.world.engine.stop().await;
    scene.recorder.told.lock().expect("not poisoned").clear();
    let policies = Policies::default().with(Saying::default());
    scene.world.engine = fixture::engine_hooked(&scene.clock, &scene.world, policies, &scene.recorder).await;
    assert_eq!(scene.recorder.tokens(1).await, [tokens[1].clone()], "another token, or one that is done");
    scene.complete(&tokens[1]).await;
    let ended = scene.world.ended(action).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    scene.complete(&tokens[1]).await;
    scene.world.assert_agreement(scene.cluster.id).await;
    assert_eq!(scene.world.cluster(scene.cluster.id).await.desired(), 1);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn silence_lets_members_go_in_the_end(#[case] kind: Kind) {
    let Some(scene) = Scene::open(kind).await else { return };
    let action = scene.scale_in().await;
    scene.recorder.tokens(2).await;
    scene.clock.advance(Span::from_secs(59));
    assert_eq!(scene.world.world.count(Verb::Stop), 0);
    scene.clock.advance(Span::from_secs(2));
    assert_eq!(scene.world.ended(action).await.status, ActionStatus::Succeeded);
    scene.world.assert_agreement(scene.cluster.id).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_unknown_token_is_not_found(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let unknown = ActionId::from_uuid(uuid::Uuid::now_v7());
    let refused = world.engine.complete_lifecycle(unknown).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("the action '{unknown}' could not be found"));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn many_are_told_of_a_few_at_a_time_and_what_gets_lost_is_an_event(#[case] kind: Kind) {
    let Some(scene) = Scene::of(kind, 20).await else { return };
    let action = scene.scale_in_by(20).await;
    assert_eq!(scene.recorder.tokens(20).await.len(), 20);
    let (_, most) = *scene.recorder.under_way.lock().expect("not poisoned");
    assert!((2..=8).contains(&most), "{most} at once");
    let query = EventQuery { cluster: Some(scene.cluster.id), ..EventQuery::default() };
    let events = scene.world.store().events(&query).await.expect("the store answers").items;
    let told: Vec<&str> =
        events.iter().filter(|event| event.reason == "HookNotTold").map(|event| &*event.message).collect();
    assert_eq!(told, ["nodes wait to go, and whoever should let them was not told: it got lost"]);
    scene.clock.advance(Span::from_secs(61));
    assert_eq!(scene.world.ended(action).await.status, ActionStatus::Succeeded);
    scene.world.assert_agreement(scene.cluster.id).await;
}
