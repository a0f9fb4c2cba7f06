//! Clusters that nobody uses, and those that were there for long enough, end by themselves. Time is what the test says.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Event;
use muster_core::limits::{Activity, Limits};
use muster_core::principal::Door;
use muster_core::time::Span;
use muster_engine::ports::clock::Clock as _;
use muster_engine::ports::provider::ProviderError;
use muster_store::reads::{ActionQuery, EventQuery};
use muster_testkit::fake::{FAKE_CLUSTER, Verb};
use muster_testkit::operator::{OPERATED_CLUSTER, Operated};
use muster_testkit::{ManualClock, eventually};
use rstest::rstest;
use serde_json::json;

use crate::fixture::{self, Fixture, Kind, PATIENCE};

/// How long clusters of these tests may be unused, or there.
const LIMIT: Span = Span::from_secs(100);

/// A quarter of that: so often a cluster is asked.
const TURN: Span = Span::from_secs(25);

struct Watched {
    clock: ManualClock,
    world: Fixture,
    cluster: Cluster,
}

impl Watched {
    /// A cluster with limits, that says this of its use.
    async fn with(kind: Kind, limits: Limits, said: Option<Activity>) -> Option<Self> {
        let clock = ManualClock::default();
        let world = Fixture::open_by(kind, &clock).await?;
        let cluster = Cluster { limits, ..fixture::cluster(FAKE_CLUSTER, 2) };
        if let Some(said) = said {
            world.world.used(cluster.id, said);
        }
        let created = world.create(&cluster).await;
        world.ended(created).await;
        Some(Self { clock, world, cluster })
    }

    async fn idle(kind: Kind) -> Option<Self> {
        let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
        let watched = Self::with(kind, limits, None).await?;
        watched.falls_idle();
        Some(watched)
    }

    fn says(&self, activity: Activity) {
        self.world.world.used(self.cluster.id, activity);
    }

    fn falls_idle(&self) {
        self.says(Activity::IdleSince(self.clock.now()));
    }

    /// Lets the cluster be asked once more, and whatever follows from its answer be done.
    async fn turn(&self) {
        self.clock.somebody_sleeps().await;
        let asked = self.world.world.count(Verb::Activity);
        self.clock.advance(TURN);
        self.world.world.begun(Verb::Activity, asked + 1).await;
        self.clock.somebody_sleeps().await;
    }

    async fn is_there(&self) -> bool {
        let row = self.world.cluster(self.cluster.id).await;
        let deletions = self.deletions().await;
        row.status == ClusterStatus::Active && deletions.is_empty()
    }

    async fn is_deleted(&self) -> Action {
        self.world.until_status(self.cluster.id, ClusterStatus::Deleted).await;
        assert!(self.world.world.running().is_empty(), "head and workers are gone");
        let [deletion] = &self.deletions().await[..] else { panic!("one deletion") };
        deletion.clone()
    }

    async fn deletions(&self) -> Vec<Action> {
        let query = ActionQuery { cluster: Some(self.cluster.id), ..ActionQuery::default() };
        let actions = self.world.store().actions(&query).await.expect("the store answers").items;
        actions.into_iter().filter(|action| action.kind == ActionKind::ClusterDelete).collect()
    }

    async fn told(&self, reason: &str) -> Vec<Event> {
        let query = EventQuery { cluster: Some(self.cluster.id), ..EventQuery::default() };
        let events = self.world.store().events(&query).await.expect("the store answers").items;
        events.into_iter().filter(|event| event.reason == reason).collect()
    }

    async fn until_told(&self, reason: &str, count: usize) {
        eventually(&format!("{count} events {reason}"), PATIENCE, async || {
            let events = self.told(reason).await;
            if events.len() < count { Err(format!("{events:?}")) } else { Ok(()) }
        })
        .await;
    }

    async fn another_server(&mut self) {
        let store = self.world.store().clone();
        self.world.engine = fixture::engine_by(&self.clock, store, &self.world.world).await;
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_that_nobody_uses_is_warned_of_and_deleted(#[case] kind: Kind) {
    let Some(watched) = Watched::idle(kind).await else { return };
    watched.turn().await;
    let row = watched.world.cluster(watched.cluster.id).await;
    assert_eq!(row.idle_ends_at(), row.created_at.map(|created| created.after(LIMIT)));
    watched.clock.advance(Span::from_secs(65));
    watched.until_told("IdleTimeoutSoon", 1).await;
    let warning = &watched.told("IdleTimeoutSoon").await[0];
    assert_eq!(
        warning.message,
        "nobody has used it for 90s: it is deleted in 10s unless it is used (idle_timeout 100s)"
    );
    assert!(watched.is_there().await, "not before its time");
    watched.clock.advance(Span::from_secs(10));
    let deletion = watched.is_deleted().await;
    assert_eq!((deletion.status, deletion.door), (ActionStatus::Succeeded, Door::Engine));
    assert_eq!((deletion.reason.as_str(), deletion.principal.id.as_str()), ("IdleTimeout", "engine"));
    let [told] = &watched.told("IdleTimeout").await[..] else { panic!("it is told once") };
    assert_eq!(told.message, "nobody has used it for its idle_timeout of 100s: it is deleted");
    assert_eq!((told.action_id, told.user.as_str()), (Some(deletion.id), "engine"));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_that_is_used_or_does_not_say_stays(#[case] kind: Kind) {
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
    for said in [Some(Activity::Busy), Some(Activity::Unknown), None] {
        let Some(watched) = Watched::with(kind, limits, said).await else { return };
        for _ in 0..10 {
            if said.is_none() {
                let error = ProviderError::transient("NoHead", "its head does not answer");
                watched.world.world.fail_next(Verb::Activity, error);
            }
            watched.turn().await;
        }
        assert!(watched.is_there().await, "{said:?}");
        assert!(watched.told("IdleTimeoutSoon").await.is_empty());
        assert_eq!(watched.world.cluster(watched.cluster.id).await.idle_ends_at(), None);
    }
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_cluster_that_is_used_again_stays_and_is_warned_of_anew(#[case] kind: Kind) {
    let Some(watched) = Watched::idle(kind).await else { return };
    watched.turn().await;
    watched.clock.advance(Span::from_secs(70));
    watched.until_told("IdleTimeoutSoon", 1).await;
    watched.says(Activity::Busy);
    watched.turn().await;
    assert!(watched.is_there().await, "it is used, just in time");
    watched.falls_idle();
    watched.turn().await;
    watched.clock.advance(Span::from_secs(66));
    watched.until_told("IdleTimeoutSoon", 2).await;
    watched.clock.advance(Span::from_secs(9));
    watched.is_deleted().await;
    assert_eq!(watched.told("IdleTimeoutSoon").await.len(), 2, "once an idle time");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_lifetime_ends_whatever_runs(#[case] kind: Kind) {
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: Some(Span::from_secs(200)) };
    let Some(watched) = Watched::with(kind, limits, Some(Activity::Busy)).await else { return };
    watched.clock.somebody_sleeps().await;
    watched.clock.advance(Span::from_secs(180));
    watched.until_told("LifetimeOverSoon", 1).await;
    assert_eq!(
        watched.told("LifetimeOverSoon").await[0].message,
        "its lifetime is over in 20s: it is then deleted, whatever runs on it (max_lifetime 200s)"
    );
    assert!(watched.is_there().await, "not before its time");
    watched.clock.advance(Span::from_secs(20));
    assert_eq!(watched.is_deleted().await.reason, "LifetimeOver");
    assert_eq!(
        watched.told("LifetimeOver").await[0].message,
        "its max_lifetime of 200s is over: it is deleted"
    );
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_lifetime_that_is_over_ends_what_is_under_way(#[case] kind: Kind) {
    let limits = Limits { idle_timeout: None, max_lifetime: Some(LIMIT) };
    let Some(watched) = Watched::with(kind, limits, None).await else { return };
    watched.world.world.hold(Verb::Start);
    let resize = watched.world.submit(ActionKind::ClusterResize, &watched.cluster, fixture::exactly(3)).await;
    watched.world.until(resize, ActionStatus::Running).await;
    watched.clock.advance(LIMIT);
    let cancelled = watched.world.ended(resize).await;
    assert_eq!(cancelled.status, ActionStatus::Cancelled);
    watched.world.world.release();
    watched.is_deleted().await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn whoever_changes_a_cluster_uses_it(#[case] kind: Kind) {
    let Some(watched) = Watched::idle(kind).await else { return };
    watched.turn().await;
    watched.clock.advance(Span::from_secs(70));
    watched.until_told("IdleTimeoutSoon", 1).await;
    watched.world.resized(&watched.cluster, 3).await;
    for _ in 0..3 {
        watched.turn().await;
    }
    assert!(watched.is_there().await, "it was changed 75 s ago");
    watched.clock.advance(TURN);
    watched.is_deleted().await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn limits_outlive_the_server(#[case] kind: Kind) {
    let Some(mut watched) = Watched::idle(kind).await else { return };
    watched.turn().await;
    watched.clock.advance(Span::from_secs(70));
    watched.until_told("IdleTimeoutSoon", 1).await;
    watched.world.engine.stop().await;
    watched.another_server().await;
    watched.clock.somebody_sleeps().await;
    assert!(watched.is_there().await, "5 s are left");
    watched.clock.advance(Span::from_secs(5));
    watched.is_deleted().await;
    assert_eq!(watched.told("IdleTimeoutSoon").await.len(), 1, "it was said before");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn time_that_passes_while_no_server_runs_counts(#[case] kind: Kind) {
    let Some(mut watched) = Watched::idle(kind).await else { return };
    watched.world.engine.stop().await;
    watched.clock.advance(LIMIT);
    watched.another_server().await;
    watched.is_deleted().await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn two_servers_end_a_cluster_once_and_one_goes_on_for_the_other(#[case] kind: Kind) {
    let Some(mut watched) = Watched::idle(kind).await else { return };
    watched.turn().await;
    let first = watched.world.engine.clone();
    watched.another_server().await;
    watched.clock.advance(Span::from_secs(65));
    watched.until_told("IdleTimeoutSoon", 1).await;
    first.stop().await;
    watched.clock.advance(Span::from_secs(10));
    watched.is_deleted().await;
    let told = (watched.told("IdleTimeoutSoon").await.len(), watched.told("IdleTimeout").await.len());
    assert_eq!(told, (1, 1));
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn limits_can_be_set_and_lifted_later(#[case] kind: Kind) {
    let Some(watched) = Watched::with(kind, Limits::default(), None).await else { return };
    watched.falls_idle();
    let update = async |limits| {
        let update = watched
            .world
            .submit(ActionKind::ClusterUpdate, &watched.cluster, json!({"limits": limits}))
            .await;
        assert_eq!(watched.world.ended(update).await.status, ActionStatus::Succeeded);
        watched.world.cluster(watched.cluster.id).await.limits
    };
    let both = json!({"idle_timeout": LIMIT, "max_lifetime": LIMIT});
    assert_eq!(update(both).await, Limits { idle_timeout: Some(LIMIT), max_lifetime: Some(LIMIT) });
    watched.turn().await;
    let lifted = json!({"max_lifetime": null});
    assert_eq!(update(lifted).await, Limits { idle_timeout: Some(LIMIT), max_lifetime: None });
    for _ in 0..3 {
        watched.turn().await;
    }
    assert!(watched.is_there().await, "it was changed 75 s ago, and lives for ever");
    watched.clock.advance(TURN);
    assert_eq!(watched.is_deleted().await.reason, "IdleTimeout");
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn a_deletion_that_fails_is_tried_again_after_a_while(#[case] kind: Kind) {
    let limits = Limits { idle_timeout: None, max_lifetime: Some(LIMIT) };
    let Some(watched) = Watched::with(kind, limits, None).await else { return };
    watched.world.world.fail_next(Verb::Delete, ProviderError::permanent("Stuck", "it does not go"));
    watched.clock.somebody_sleeps().await;
    watched.clock.advance(LIMIT);
    watched.until_told("LifetimeOver", 1).await;
    let first = watched.deletions().await[0].id;
    assert_eq!(watched.world.ended(first).await.status, ActionStatus::Failed);
    watched.clock.somebody_sleeps().await;
    assert_eq!(watched.deletions().await.len(), 1, "not at once");
    watched.clock.advance(Span::from_secs(60));
    watched.world.until_status(watched.cluster.id, ClusterStatus::Deleted).await;
    assert_eq!(watched.deletions().await.len(), 2);
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn what_cannot_tell_whether_it_is_used_has_no_idle_timeout(#[case] kind: Kind) {
    let Some(world) = Fixture::open(kind).await else { return };
    let limits = Limits { idle_timeout: Some(LIMIT), max_lifetime: None };
    let silent = Cluster { instance: Operated::instance_id(), ..fixture::cluster(OPERATED_CLUSTER, 1) };
    let refused = world.try_create(&Cluster { limits, ..silent.clone() }).await.unwrap_err();
    let sentence = "clusters of type operated.cluster-1.0 cannot tell whether they are used: leave idle_timeout out, \
                    and use max_lifetime instead";
    assert_eq!(refused.to_string(), sentence);
    let inputs = json!({"limits": {"idle_timeout": LIMIT}});
    assert_eq!(world.refused(ActionKind::ClusterUpdate, &silent, inputs).await.to_string(), sentence);
}
