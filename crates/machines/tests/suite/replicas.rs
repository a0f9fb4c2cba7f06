//! Several replicas, of which leaders are killed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use muster_machines::decide::registration::WebhookTarget;
use muster_machines::decide::slot_pod::SlotPod;
use muster_machines::run::{LeaseTimes, Machines, MachinesSettings};
use muster_testkit::eventually;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::harness::{PATIENCE, Site, listener, spec};

/// One address for several servers: every connection is forwarded to the first server that accepts it.
struct Balancer {
    address: SocketAddr,
    servers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let servers = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let known = Arc::clone(&servers);
        tokio::spawn(async move {
            while let Ok((mut incoming, _)) = listener.accept().await {
                let known = known.lock().clone();
                tokio::spawn(async move {
                    for server in known {
                        if let Ok(mut outgoing) = TcpStream::connect(server).await {
                            let _ = copy_bidirectional(&mut incoming, &mut outgoing).await;
                            return;
                        }
                    }
                });
            }
        });
        Self { address, servers }
    }

    /// A replica behind this address.
    async fn replica(&self, site: &Site, name: &str) -> Machines {
        let (listener, _) = listener();
        self.servers.lock().push(listener.local_addr().unwrap());
        let target = WebhookTarget::Url(format!("https://{}", self.address));
        site.replica_behind(name, listener, target).await
    }
}

/// The guests whose gate was removed and that have not ended.
async fn released(site: &Site) -> BTreeSet<String> {
    let pods: Vec<Pod> = site.pods().list(&ListParams::default()).await.unwrap().items;
    pods.iter().filter_map(SlotPod::read).filter(SlotPod::is_released).map(|pod| pod.name).collect()
}

#[tokio::test]
async fn a_leader_that_is_stopped_makes_room_at_once() {
    let Some(site) = Site::open().await else { return };
    // The Lease expires only after the test has given up.
    let long = |settings: &mut MachinesSettings| settings.lease = LeaseTimes::within(PATIENCE + PATIENCE / 2);
    let first = site.replica_with("first", long).await;
    let leads = async |replica: &Machines| {
        eventually(
            "it leads",
            PATIENCE,
            async || if replica.is_leader() { Ok(()) } else { Err("it does not") },
        )
        .await;
    };
    leads(&first).await;
    let second = site.replica_with("second", long).await;
    first.stop().await;
    leads(&second).await;
}

const SLOTS: usize = 10;
const GUESTS: usize = 100;

#[tokio::test]
async fn however_often_leaders_are_killed_no_slot_is_given_twice() {
    let Some(site) = Site::open().await else { return };
    let balancer = Balancer::start().await;
    let mut replicas = vec![balancer.replica(&site, "0").await, balancer.replica(&site, "1").await];
    site.create_machine("general", &spec("medium", &["node-0", "node-1"], 10)).await.unwrap();
    site.counts("general", "medium", [10, 10, 0, 0]).await;
    let names: Vec<String> = (0..GUESTS).map(|number| format!("g-{number:03}")).collect();
    for name in &names {
        site.guest(name, "general", "medium").await.unwrap();
    }

    let mut gone = BTreeSet::new();
    let (mut next, mut kill_at) = (2, Instant::now());
    let deadline = Instant::now() + PATIENCE * 4;
    while gone.len() < GUESTS {
        assert!(Instant::now() < deadline, "{} of {GUESTS} guests had a slot", gone.len());
        // Asked repeatedly: the gates of one pass are not removed at the same moment.
        let holding = eventually("they enter in order", PATIENCE, async || {
            let holding = released(&site).await;
            assert!(holding.len() <= SLOTS, "{holding:?}");
            let entered: BTreeSet<String> = gone.union(&holding).cloned().collect();
            if names.iter().take(entered.len()).eq(&entered) {
                Ok(holding)
            } else {
                Err(format!("{entered:?}"))
            }
        })
        .await;
        let leader = replicas.iter().position(Machines::is_leader);
        if let Some(leader) = leader.filter(|_| kill_at <= Instant::now()) {
            // The leader is killed: its tasks end without releasing the Lease.
            drop(replicas.remove(leader));
            replicas.push(balancer.replica(&site, &next.to_string()).await);
            (next, kill_at) = (next + 1, Instant::now() + Duration::from_secs(2));
        }
        for guest in holding {
            if site.pods().get(&guest).await.unwrap().spec.is_some_and(|spec| spec.node_name.is_some()) {
                site.delete_guest(&guest).await;
                gone.insert(guest);
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
    assert!(next > 3, "leaders were killed: {next}");
    site.counts("general", "medium", [10, 10, 0, 0]).await;
    eventually("one leads", PATIENCE, async || {
        let leaders = replicas.iter().filter(|replica| replica.is_leader()).count();
        if leaders == 1 { Ok(()) } else { Err(leaders) }
    })
    .await;
}
