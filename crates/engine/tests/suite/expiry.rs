//! Idle timeout and lifetime of clusters. The test sets the time.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Event;
use muster_core::limits::{Activity, Limits};
use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_engine::ports::clock::Clock as _;
use muster_engine::ports::provider::ProviderError;
use muster_store::reads::{ActionQuery, EventQuery};
use muster_testkit::fake::{FAKE_CLUSTER, Verb};
use muster_testkit::operator::{OPERATED_CLUSTER, Operated};
use muster_testkit::{ManualClock, database_test, eventually};
use serde_json::json;

use crate::harness::{self, Harness, Kind, PATIENCE, setup};

/// The idle timeout and the lifetime of clusters of these tests.
const LIMIT: TimeSpan = TimeSpan::from_secs(100);

/// The interval of activity queries, which is a quarter of the idle timeout.
const TURN: TimeSpan = TimeSpan::from_secs(25);

struct LimitScenario {
    clock: ManualClock,
    harness: Harness,
    cluster: Cluster,
}

impl LimitScenario {
    /// A cluster with limits that reports this activity.
    async fn with(kind: Kind, limits: Limits, said: Option<Activity>) -> Option<Self> {
        let clock = ManualClock::default();
        let harness = setup().clock(&clock).open(kind).await?;
        let cluster = Cluster { limits, ..harness::cluster(FAKE_CLUSTER, 2) };
        if let Some(said) = said {
            harness.provider.used(cluster.id, said);
        }
        let created = harness.create(&cluster).await;
        harness.ended(created).await;
        Some(Self { clock, harness, cluster })
    }

    async fn idle(kind: Kind) -> Option<Self> {
        let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
        let scenario = Self::with(kind, limits, None).await?;
        scenario.falls_idle();
        Some(scenario)
    }

    fn says(&self, activity: Activity) {
        self.harness.provider.used(self.cluster.id, activity);
    }

    fn falls_idle(&self) {
        self.says(Activity::IdleSince(self.clock.now()));
    }

    /// Waits for one more activity query of the cluster, and for the decision that follows from its answer.
    async fn turn(&self) {
        self.clock.a_task_sleeps().await;
        let asked = self.harness.provider.count(Verb::Activity);
        self.clock.advance(TURN);
        self.harness.provider.begun(Verb::Activity, asked + 1).await;
        self.clock.a_task_sleeps().await;
    }

    async fn is_there(&self) -> bool {
        let row = self.harness.cluster(self.cluster.id).await;
        let deletions = self.deletions().await;
        row.status == ClusterStatus::Active && deletions.is_empty()
    }

    async fn is_deleted(&self) -> Action {
        self.harness.until_status(self.cluster.id, ClusterStatus::Deleted).await;
        assert!(self.harness.provider.running().is_empty(), "head and workers are gone");
        let [deletion] = &self.deletions().await[..] else { panic!("one deletion") };
        deletion.clone()
    }

    async fn deletions(&self) -> Vec<Action> {
        let query = ActionQuery { cluster: Some(self.cluster.id), ..ActionQuery::default() };
        let actions = self.harness.store().actions(&query).await.expect("the store answers").items;
        actions.into_iter().filter(|action| action.kind == ActionKind::ClusterDelete).collect()
    }

    async fn recorded_events(&self, reason: &str) -> Vec<Event> {
        let query = EventQuery { cluster: Some(self.cluster.id), ..EventQuery::default() };
        let events = self.harness.store().events(&query).await.expect("the store answers").items;
        events.into_iter().filter(|event| event.reason == reason).collect()
    }

    async fn until_recorded(&self, reason: &str, count: usize) {
        eventually(&format!("{count} events {reason}"), PATIENCE, async || {
            let events = self.recorded_events(reason).await;
            if events.len() < count { Err(format!("{events:?}")) } else { Ok(()) }
        })
        .await;
    }

    async fn another_server(&mut self) {
        let store = self.harness.store().clone();
        self.harness.engine = setup().clock(&self.clock).start(store, &self.harness).await;
    }
}

/// A cluster with an idle timeout whose creation failed.
async fn failed(kind: Kind) -> Option<LimitScenario> {
    let clock = ManualClock::default();
    let harness = setup().clock(&clock).open(kind).await?;
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
    let cluster = Cluster { limits, init_at: clock.now(), ..harness::cluster(FAKE_CLUSTER, 1) };
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it cannot start"));
    let created = harness.create(&cluster).await;
    assert_eq!(harness.ended(created).await.status, ActionStatus::Failed);
    Some(LimitScenario { clock, harness, cluster })
}

#[database_test(failed)]
async fn a_cluster_whose_creation_failed_is_deleted_when_it_is_idle(scenario: LimitScenario) {
    assert_eq!(scenario.harness.cluster(scenario.cluster.id).await.created_at, None);
    scenario.falls_idle();
    for _ in 0..4 {
        scenario.turn().await;
    }
    scenario.is_deleted().await;
}

#[database_test(LimitScenario::idle)]
async fn an_idle_cluster_is_warned_of_and_deleted(scenario: LimitScenario) {
    scenario.turn().await;
    let row = scenario.harness.cluster(scenario.cluster.id).await;
    assert_eq!(row.idle_ends_at(), row.created_at.map(|created| created.after(LIMIT)));
    scenario.clock.advance(TimeSpan::from_secs(65));
    scenario.until_recorded("IdleTimeoutSoon", 1).await;
    let warning = &scenario.recorded_events("IdleTimeoutSoon").await[0];
    assert_eq!(
        warning.message,
        "it has been idle for 90s: it is deleted in 10s unless it is used (idle_timeout 100s)"
    );
    assert!(scenario.is_there().await, "not before its time");
    scenario.clock.advance(TimeSpan::from_secs(10));
    let deletion = scenario.is_deleted().await;
    assert_eq!((deletion.status, deletion.door), (ActionStatus::Succeeded, Door::Engine));
    assert_eq!((deletion.reason.as_str(), deletion.principal.id.as_str()), ("IdleTimeout", "engine"));
    let [recorded] = &scenario.recorded_events("IdleTimeout").await[..] else { panic!("there is one event") };
    assert_eq!(recorded.message, "it has been idle for its idle_timeout of 100s: it is deleted");
    assert_eq!((recorded.action_id, recorded.user.as_str()), (Some(deletion.id), "engine"));
}

#[database_test]
async fn a_cluster_that_is_used_or_does_not_say_stays(kind: Kind) {
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
    for said in [Some(Activity::Busy), Some(Activity::Unknown), None] {
        let Some(scenario) = LimitScenario::with(kind, limits, said).await else { return };
        for _ in 0..10 {
            if said.is_none() {
                let error = ProviderError::transient("NoHead", "its head does not answer");
                scenario.harness.provider.fail_next(Verb::Activity, error);
            }
            scenario.turn().await;
        }
        assert!(scenario.is_there().await, "{said:?}");
        assert!(scenario.recorded_events("IdleTimeoutSoon").await.is_empty());
        assert_eq!(scenario.harness.cluster(scenario.cluster.id).await.idle_ends_at(), None);
    }
}

#[database_test(LimitScenario::idle)]
async fn a_cluster_that_is_used_again_stays_and_is_warned_of_again(scenario: LimitScenario) {
    scenario.turn().await;
    scenario.clock.advance(TimeSpan::from_secs(70));
    scenario.until_recorded("IdleTimeoutSoon", 1).await;
    scenario.says(Activity::Busy);
    scenario.turn().await;
    assert!(scenario.is_there().await, "it is used, just in time");
    scenario.falls_idle();
    scenario.turn().await;
    scenario.clock.advance(TimeSpan::from_secs(66));
    scenario.until_recorded("IdleTimeoutSoon", 2).await;
    scenario.clock.advance(TimeSpan::from_secs(9));
    scenario.is_deleted().await;
    assert_eq!(scenario.recorded_events("IdleTimeoutSoon").await.len(), 2, "once an idle time");
}

#[database_test]
async fn a_lifetime_ends_whatever_runs(kind: Kind) {
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: Some(TimeSpan::from_secs(200)) };
    let Some(scenario) = LimitScenario::with(kind, limits, Some(Activity::Busy)).await else { return };
    scenario.clock.a_task_sleeps().await;
    scenario.clock.advance(TimeSpan::from_secs(180));
    scenario.until_recorded("LifetimeOverSoon", 1).await;
    assert_eq!(
        scenario.recorded_events("LifetimeOverSoon").await[0].message,
        "its lifetime is over in 20s: it is then deleted, whatever runs on it (max_lifetime 200s)"
    );
    assert!(scenario.is_there().await, "not before its time");
    scenario.clock.advance(TimeSpan::from_secs(20));
    assert_eq!(scenario.is_deleted().await.reason, "LifetimeOver");
    assert_eq!(
        scenario.recorded_events("LifetimeOver").await[0].message,
        "its max_lifetime of 200s is over: it is deleted"
    );
}

#[database_test]
async fn a_lifetime_that_is_over_ends_what_is_under_way(kind: Kind) {
    let limits = Limits { idle_timeout: None, max_lifetime: Some(LIMIT) };
    let Some(scenario) = LimitScenario::with(kind, limits, None).await else { return };
    scenario.harness.provider.hold(Verb::Start);
    let resize =
        scenario.harness.submit(ActionKind::ClusterResize, &scenario.cluster, harness::exactly(3)).await;
    scenario.harness.until(resize, ActionStatus::Running).await;
    scenario.clock.advance(LIMIT);
    let cancelled = scenario.harness.ended(resize).await;
    assert_eq!(cancelled.status, ActionStatus::Cancelled);
    scenario.harness.provider.release();
    scenario.is_deleted().await;
}

#[database_test(LimitScenario::idle)]
async fn a_change_counts_as_use(scenario: LimitScenario) {
    scenario.turn().await;
    scenario.clock.advance(TimeSpan::from_secs(70));
    scenario.until_recorded("IdleTimeoutSoon", 1).await;
    scenario.harness.resized(&scenario.cluster, 3).await;
    for _ in 0..3 {
        scenario.turn().await;
    }
    assert!(scenario.is_there().await, "it was changed 75 s ago");
    scenario.clock.advance(TURN);
    scenario.is_deleted().await;
}

#[database_test(LimitScenario::idle)]
async fn limits_outlive_the_server(mut scenario: LimitScenario) {
    scenario.turn().await;
    scenario.clock.advance(TimeSpan::from_secs(70));
    scenario.until_recorded("IdleTimeoutSoon", 1).await;
    scenario.harness.engine.stop().await;
    scenario.another_server().await;
    scenario.clock.a_task_sleeps().await;
    assert!(scenario.is_there().await, "5 s are left");
    scenario.clock.advance(TimeSpan::from_secs(5));
    scenario.is_deleted().await;
    assert_eq!(scenario.recorded_events("IdleTimeoutSoon").await.len(), 1, "it was warned before");
}

#[database_test(LimitScenario::idle)]
async fn time_that_passes_while_no_server_runs_counts(mut scenario: LimitScenario) {
    scenario.harness.engine.stop().await;
    scenario.clock.advance(LIMIT);
    scenario.another_server().await;
    scenario.is_deleted().await;
}

#[database_test(LimitScenario::idle)]
async fn two_servers_end_a_cluster_once_and_one_continues_for_the_other(mut scenario: LimitScenario) {
    scenario.turn().await;
    let first = scenario.harness.engine.clone();
    scenario.another_server().await;
    scenario.clock.advance(TimeSpan::from_secs(65));
    scenario.until_recorded("IdleTimeoutSoon", 1).await;
    first.stop().await;
    scenario.clock.advance(TimeSpan::from_secs(10));
    scenario.is_deleted().await;
    let recorded = (
        scenario.recorded_events("IdleTimeoutSoon").await.len(),
        scenario.recorded_events("IdleTimeout").await.len(),
    );
    assert_eq!(recorded, (1, 1));
}

#[database_test(|kind| LimitScenario::with(kind, Limits::default(), None))]
async fn limits_can_be_set_and_lifted_later(scenario: LimitScenario) {
    scenario.falls_idle();
    let update = async |limits| {
        let update = scenario
            .harness
            .submit(ActionKind::ClusterUpdate, &scenario.cluster, json!({"limits": limits}))
            .await;
        assert_eq!(scenario.harness.ended(update).await.status, ActionStatus::Succeeded);
        scenario.harness.cluster(scenario.cluster.id).await.limits
    };
    let both = json!({"idle_timeout": LIMIT, "max_lifetime": LIMIT});
    assert_eq!(update(both).await, Limits { idle_timeout: Some(LIMIT), max_lifetime: Some(LIMIT) });
    scenario.turn().await;
    let lifted = json!({"max_lifetime": null});
    assert_eq!(update(lifted).await, Limits { idle_timeout: Some(LIMIT), max_lifetime: None });
    for _ in 0..3 {
        scenario.turn().await;
    }
    assert!(scenario.is_there().await, "it was changed 75 s ago, and lives for ever");
    scenario.clock.advance(TURN);
    assert_eq!(scenario.is_deleted().await.reason, "IdleTimeout");
}

#[database_test]
async fn a_deletion_that_fails_is_tried_again_after_a_while(kind: Kind) {
    let limits = Limits { idle_timeout: None, max_lifetime: Some(LIMIT) };
    let Some(scenario) = LimitScenario::with(kind, limits, None).await else { return };
    scenario.harness.provider.fail_next(Verb::Delete, ProviderError::permanent("Stuck", "it does not go"));
    scenario.clock.a_task_sleeps().await;
    scenario.clock.advance(LIMIT);
    scenario.until_recorded("LifetimeOver", 1).await;
    let first = scenario.deletions().await[0].id;
    assert_eq!(scenario.harness.ended(first).await.status, ActionStatus::Failed);
    scenario.clock.a_task_sleeps().await;
    assert_eq!(scenario.deletions().await.len(), 1, "not at once");
    scenario.clock.advance(TimeSpan::from_secs(60));
    scenario.harness.until_status(scenario.cluster.id, ClusterStatus::Deleted).await;
    assert_eq!(scenario.deletions().await.len(), 2);
}

#[database_test]
async fn a_type_whose_use_is_not_observed_has_no_idle_timeout(harness: Harness) {
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
    let silent = Cluster { instance: Operated::instance_id(), ..harness::cluster(OPERATED_CLUSTER, 1) };
    let refused = harness.try_create(&Cluster { limits, ..silent.clone() }).await.unwrap_err();
    let sentence = "idle_timeout is not supported for type operated.cluster-1.0, whose use is not observed: omit it, or \
                    use max_lifetime instead";
    assert_eq!(refused.to_string(), sentence);
    let inputs = json!({"limits": {"idle_timeout": LIMIT}});
    assert_eq!(harness.refused(ActionKind::ClusterUpdate, &silent, inputs).await.to_string(), sentence);
}
