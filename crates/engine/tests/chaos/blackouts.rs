//! An engine that vanishes without closing its connections (power loss, a cut network, a frozen machine) in the middle of a
//! transaction: its rows stay locked until the database ends the transaction, and the other engines continue.

use std::time::Duration;

use muster_core::ids::{ActionId, ClusterId, EngineId};
use muster_testkit::world::{Control, Pace, Replica, WORLD_CLUSTER};
use muster_testkit::{PostgresProxy, eventually};

use crate::facts::{self, Expected};
use crate::harness::{Harness, Kind, created, grow, new_cluster, succeeded};

/// The longest time that the other engines may take to take over.
const TAKE_OVER: Duration = Duration::from_secs(20);

/// Renews often a lease that is too long to be lost on a slow machine.
const STEADY: Pace = Pace { lease: 15_000, heartbeat: 300, safety: 100 };

/// The statement by which a claim sets the status of a cluster: from then on the transaction has locked the row.
const CLAIMS: &str = "UPDATE clusters SET status";

/// Transactions of the engine that is cut off: they do nothing and keep their locks.
const GHOSTS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                      AND application_name = 'cut_off' AND state = 'idle in transaction' \
                      AND backend_xid IS NOT NULL";

/// The address of a database behind a proxy, for the engine that is cut off.
fn address(proxy: &PostgresProxy) -> String {
    format!("{}?application_name=cut_off", proxy.url())
}

impl Harness {
    async fn ghosts(&self) -> String {
        self.psql(GHOSTS).await.trim().to_owned()
    }

    /// Starts an engine, and cuts it off from its database when it has locked the row of a new cluster.
    async fn cut_off_in_a_claim(&self, proxy: &PostgresProxy) -> (Replica, ClusterId, ActionId) {
        let engine = Replica::start(&address(proxy), &self.world, STEADY).await;
        proxy.cut_after(CLAIMS);
        let cluster = new_cluster();
        let create = engine.create(cluster, WORLD_CLUSTER, 2).await.id;
        proxy.is_dark().await;
        (engine, cluster, create)
    }

    /// Starts another engine, which has to end the action in time.
    async fn take_over(&self, action: ActionId) -> Replica {
        let survivor = self.engine_at(STEADY).await;
        let ended = tokio::time::timeout(TAKE_OVER, survivor.end(action)).await;
        let ended = ended.expect("the other engine takes the action over");
        succeeded(&ended);
        assert_eq!(ended.owner, Some(survivor.first_id()));
        survivor
    }

    /// Waits until an engine has renewed its lease twice.
    async fn renews(&self, engine: EngineId) {
        let sql = format!("SELECT lease_until FROM engines WHERE id = '{engine}'");
        for _ in 0..2 {
            let before = self.psql(&sql).await;
            eventually("a renewed lease", TAKE_OVER, async || {
                let now = self.psql(&sql).await;
                if now == before { Err(now) } else { Ok(()) }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn an_engine_cut_off_while_it_registers_leaves_the_others_their_leases() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let survivor = harness.engine_at(STEADY).await;
    let cluster = created(&survivor, 1).await;
    let proxy = PostgresProxy::start(&harness.address()).await;
    // Cut off after it has written the row of the instance, which both engines serve.
    proxy.cut_after("INSERT INTO instances");
    // By default the server would end that transaction soon; here it does not.
    let address = format!("{}&options=-c%20idle_in_transaction_session_timeout%3D60s", address(&proxy));
    let cut_off = Replica::start_in_vain(&address, &harness.world, STEADY);
    proxy.is_dark().await;
    harness.renews(survivor.first_id()).await;
    assert_eq!(harness.ghosts().await, "1", "the row is still locked");
    succeeded(&survivor.end(grow(&survivor, cluster, 1).await).await);
    assert_eq!(survivor.id().await, survivor.first_id(), "it never lost its lease");
    drop(cut_off);
    assert!(survivor.stop().await.success());
    facts::no_locks(&harness).await;
}

#[tokio::test]
async fn what_an_engine_locked_before_it_was_cut_off_is_taken_over() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let proxy = PostgresProxy::start(&harness.address()).await;
    let (cut_off, cluster, create) = harness.cut_off_in_a_claim(&proxy).await;
    assert_eq!(harness.ghosts().await, "1", "the cluster's row is locked");
    let survivor = harness.take_over(create).await;
    assert_eq!(harness.ghosts().await, "0");
    // The survivor also has the duty to observe: a lost node is recovered.
    let running = harness.world.running(cluster).await;
    let (lost, physical_id) = running.iter().next().expect("it runs");
    harness.world.control(Control::Lose(*lost)).await;
    eventually("the lost node is replaced", TAKE_OVER, async || {
        let now = harness.world.running(cluster).await;
        let replaced = now.len() == running.len() && now.values().all(|id| id != physical_id);
        if replaced { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    survivor.rest(cluster).await;
    assert_eq!(survivor.id().await, survivor.first_id(), "it never lost its lease");
    drop(cut_off);
    assert!(survivor.stop().await.success());
    facts::no_locks(&harness).await;
}

#[tokio::test]
async fn what_an_engine_locked_before_it_froze_is_taken_over_and_it_begins_again() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let proxy = PostgresProxy::start(&harness.address()).await;
    let (frozen, cluster, create) = harness.cut_off_in_a_claim(&proxy).await;
    // The connection works again, and the frozen process does not read the answers.
    frozen.pause();
    proxy.mend();
    let survivor = harness.take_over(create).await;
    frozen.wake();
    assert!(survivor.stop().await.success());
    let resize = grow(&frozen, cluster, 1).await;
    succeeded(&frozen.end(resize).await);
    facts::agree(&harness, cluster, Expected { workers: Some(3), made: 4, again: 0 }).await;
    assert!(frozen.stop().await.success());
    facts::no_locks(&harness).await;
}
