//! A store of either kind, fresh for each test.

use muster_core::action::{Action, ActionKind, OnConflict};
use muster_core::cluster::Cluster;
use muster_core::ids::{ActionId, ClusterId, EngineId};
use muster_core::sample;
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::Store;
use muster_store::commands::{Accept, Claim, Claimed, NewCluster, Record, Register, Ticket};
use muster_testkit::{Database, FreshStore, eventually};
use sqlx::{Connection as _, Executor as _, PgConnection};
use uuid::Uuid;

pub(crate) use muster_testkit::DatabaseKind as Kind;

/// A time limit that only a hang reaches.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) struct Harness {
    pub(crate) store: Store,
    fresh: FreshStore,
}

impl Harness {
    /// Opens a store; `None` if the machine has no PostgreSQL: the test is then reported as skipped.
    pub(crate) async fn open(kind: Kind) -> Option<Self> {
        let fresh = FreshStore::open(kind).await?;
        Some(Self { store: fresh.store.clone(), fresh })
    }

    /// Another replica of the same database; `None` for a file.
    pub(crate) async fn replica(&self) -> Option<Store> {
        self.fresh.replica().await
    }

    /// The database on the server; panics for a file.
    pub(crate) fn database(&self) -> &Database {
        self.fresh.database().expect("a database on a server")
    }

    /// A session of another program on the same database.
    pub(crate) async fn session(&self) -> PgConnection {
        PgConnection::connect(self.database().url()).await.expect("a connection opens")
    }

    /// Blocks statements, such as `INSERT ON clusters`, for rows that fulfil a condition, until the returned session is
    /// closed.
    pub(crate) async fn hold(&self, statements: &str, condition: &str) -> PgConnection {
        let sql = format!(
            "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 PERFORM pg_advisory_xact_lock_shared(1); \
                 IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; \
             END $$; \
             CREATE TRIGGER hold BEFORE {statements} FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION hold()"
        );
        self.execute(&sql).await;
        let mut session = self.session().await;
        session.execute("SELECT pg_advisory_lock(1)").await.expect("a free lock");
        session
    }

    /// Closes the session that blocks a statement, once another transaction waits for the blocked one.
    pub(crate) async fn release_once_another_waits(&self, session: PgConnection) {
        self.until_a_session_waits("transactionid").await;
        session.close().await.expect("the session ends");
    }

    /// The number of deadlocks in this database that PostgreSQL resolved.
    pub(crate) async fn deadlocks(&self) -> u64 {
        // Sessions report their counters only when they are idle for a moment or end.
        let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        let count = self.fresh.psql(sql).await.expect("PostgreSQL counts");
        count.trim().parse().expect("a number")
    }

    /// Runs a statement beside the store, on either database.
    pub(crate) async fn execute(&self, sql: &str) {
        self.fresh.execute(sql).await;
    }

    /// Runs a statement beside the store.
    pub(crate) async fn psql(&self, sql: &str) -> String {
        self.fresh.psql(sql).await.expect("PostgreSQL answers")
    }

    /// Waits until a session of this database is in the middle of `pg_sleep`.
    pub(crate) async fn until_a_session_sleeps(&self) {
        self.until_a_session_waits("PgSleep").await;
    }

    /// Waits until a session of this database waits for the event with this name in `pg_stat_activity`.
    pub(crate) async fn until_a_session_waits(&self, event: &str) {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND wait_event = '{event}'"
        );
        eventually(&format!("a session that waits: {event}"), PATIENCE, async || {
            let count = self.psql(&sql).await;
            if count.trim() == "0" { Err(count) } else { Ok(()) }
        })
        .await;
    }

    /// Terminates the connections on which replicas are notified of commits.
    pub(crate) async fn cut_listeners(&self) {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND query LIKE 'LISTEN%'";
        self.fresh.psql(sql).await.expect("PostgreSQL ends sessions");
    }

    /// Stores a cluster with its CREATE action.
    pub(crate) async fn create(&self, number: u128) -> Action {
        self.store.accept(creation(number)).await.expect("a new cluster").action
    }
}

pub(crate) fn engine(number: u128) -> EngineId {
    EngineId::from_uuid(Uuid::from_u128(number))
}

pub(crate) fn now(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A cluster whose name and id are derived from a number.
pub(crate) fn cluster(number: u128) -> Cluster {
    Cluster {
        id: ClusterId::from_uuid(Uuid::from_u128(number)),
        name: format!("c{number}"),
        object_name: format!("c{number}"),
        profile_id: muster_core::ids::ProfileId::from_uuid(Uuid::from_u128(number)),
        init_at: now(i64::try_from(number).expect("a small number")),
        ..sample::cluster(1, 0, None)
    }
}

pub(crate) fn creation(number: u128) -> Accept {
    let cluster = cluster(number);
    let profile = muster_core::profile::Profile { id: cluster.profile_id, ..sample::profile() };
    Accept {
        cluster: Some(NewCluster {
            cluster: cluster.clone(),
            profile: Some(profile),
            unique_name: true,
            quota: None,
            app: None,
            job: None,
        }),
        ..request(number, ActionKind::ClusterCreate, cluster.id, OnConflict::Queue)
    }
}

pub(crate) fn request(number: u128, kind: ActionKind, cluster: ClusterId, on_conflict: OnConflict) -> Accept {
    Accept::new(sample::action(number, kind, cluster), on_conflict)
}

pub(crate) fn claim(by: EngineId) -> Claim {
    Claim {
        engine: by,
        instances: vec![sample::instance()],
        kinds: ActionKind::ALL.iter().map(|kind| (*kind, 1)).collect(),
        limit: 10,
        now: now(1_000),
    }
}

pub(crate) fn registration(engine: EngineId, lease: TimeSpan) -> Register {
    Register {
        engine,
        host: "here".to_owned(),
        version: "1".to_owned(),
        instances: vec![sample::instance()],
        lease,
    }
}

/// An engine that stays alive for the whole test.
pub(crate) async fn living(store: &Store, number: u128) -> EngineId {
    let engine = engine(number);
    store.register(registration(engine, TimeSpan::from_secs(3600))).await.expect("a registration");
    engine
}

pub(crate) fn ticket(claimed: &Claimed) -> Ticket {
    let action = &claimed.action;
    Ticket { action: action.id, engine: action.owner.expect("an owner"), fence: action.fence }
}

pub(crate) fn record(claimed: &Claimed) -> Record {
    Record::new(ticket(claimed), now(2_000))
}

pub(crate) fn action_id(number: u128) -> ActionId {
    ActionId::from_uuid(Uuid::from_u128(number))
}
