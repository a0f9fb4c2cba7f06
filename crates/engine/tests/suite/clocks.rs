//! Replicas on machines whose clocks differ.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_core::action::{ActionKind, ActionStatus};
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::policy::Policies;
use muster_engine::ports::clock::{Clock, DatabaseClock, SystemClock};
use muster_testkit::database_test;
use muster_testkit::fake::Verb;
use serde_json::json;

use crate::harness::{Kind, exactly, setup};
use crate::scripted_policy::ScriptedPolicy;

/// The clock of a machine that is ahead.
struct Ahead(TimeSpan);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0)
    }
}

/// A clock whose sleeps end early, as those of the machine's clock do after a minute.
struct EarlyRiser;

impl Clock for EarlyRiser {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn sleep_until(&self, _: Timestamp) -> BoxFuture<'static, ()> {
        tokio::time::sleep(Duration::from_millis(20)).boxed()
    }
}

#[database_test]
async fn a_grace_period_does_not_end_early(kind: Kind) {
    let saying = ScriptedPolicy::default();
    let policies = Policies::default().with(saying.clone());
    let setup = setup().shared_clock(Arc::new(EarlyRiser)).policies(policies);
    let Some(harness) = setup.open(kind).await else { return };
    let (cluster, _) = harness.created(2).await;
    saying.bind(&harness, cluster.id).await;
    saying.say(&json!({"deletion": {"grace_period": 1}}));
    let shrink = harness.submit(ActionKind::ClusterScaleIn, &cluster, json!({})).await;
    let ended = harness.ended(shrink).await;
    let took = ended.ended_at.unwrap().since(ended.applied_at.unwrap());
    assert!(took >= TimeSpan::from_millis(990), "{took:?}");
}

fn clock(ahead: u32) -> Arc<dyn Clock> {
    Arc::new(DatabaseClock::new(Arc::new(Ahead(TimeSpan::from_secs(ahead)))))
}

#[tokio::test]
async fn changes_are_applied_in_the_order_in_which_replicas_accepted_them() {
    let Some(mut harness) = setup().shared_clock(clock(3600)).open(Kind::Postgres).await else { return };
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let busy = harness.submit(ActionKind::ClusterResize, &cluster, exactly(2)).await;
    harness.applied(busy).await;
    let first = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    let other = setup().shared_clock(clock(0)).start(harness.store().clone(), &harness).await;
    let ahead = std::mem::replace(&mut harness.engine, other);
    let second = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    harness.provider.release();
    for action in [busy, first, second] {
        let action = harness.ended(action).await;
        assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    }
    assert_eq!(harness.cluster(cluster.id).await.desired(), 3, "the later request counts");
    ahead.stop().await;
}

#[tokio::test]
async fn an_action_that_is_taken_over_by_a_replica_ahead_has_not_timed_out() {
    let Some(mut harness) = setup().shared_clock(clock(0)).open(Kind::Postgres).await else { return };
    let (cluster, _) = harness.created(1).await;
    harness.provider.hold(Verb::Start);
    let grow = harness.submit(ActionKind::ClusterResize, &cluster, exactly(2)).await;
    harness.applied(grow).await;
    harness.engine.stop().await;
    // Further ahead than the timeout of the action.
    harness.engine = setup().shared_clock(clock(7200)).start(harness.store().clone(), &harness).await;
    harness.provider.release();
    let grown = harness.ended(grow).await;
    assert_eq!(grown.status, ActionStatus::Succeeded, "{}", grown.status_reason);
    let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    assert_eq!(harness.ended(check).await.status, ActionStatus::Succeeded);
}
