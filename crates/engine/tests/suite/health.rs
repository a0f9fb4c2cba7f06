//! Health policies. The test sets the time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use muster_core::action::{Action, ActionKind, ActionStatus, Cause};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{NodeRole, NodeStatus};
use muster_core::policy::Policy;
use muster_core::policy::health::PollUrl;
use muster_core::time::TimeSpan;
use muster_engine::policy::Policies;
use muster_engine::ports::probe::{PollResult, Probe};
use muster_engine::ports::provider::ProviderError;
use muster_store::reads::ActionQuery;
use muster_testkit::fake::{FAKE_CLUSTER, FAKE_NODE, Verb};
use muster_testkit::{ManualClock, database_test, eventually};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::{self, Harness, Kind, PATIENCE, setup};
use crate::policies::{attach, ended, policy};

/// The check interval of these tests.
const INTERVAL: TimeSpan = TimeSpan::from_secs(60);

struct HealthScenario {
    clock: ManualClock,
    harness: Harness,
    cluster: Cluster,
    policy: Policy,
}

impl HealthScenario {
    /// A cluster of this type with this health policy.
    async fn with(kind: Kind, profile: &str, mode: &Value, policies: Policies) -> Option<Self> {
        let clock = ManualClock::default();
        let harness = setup().clock(&clock).policies(policies).open(kind).await?;
        let cluster = harness::cluster(profile, 2);
        let created = harness.create(&cluster).await;
        harness.ended(created).await;
        let recovery = json!({"actions": [{"name": "RECREATE"}], "node_delete_timeout": 7});
        let properties = json!({"detection": {"detection_modes": [mode]}, "recovery": recovery});
        let policy = policy(&harness, "senlin.policy.health-1.2", properties).await;
        let attached = attach(&harness, &cluster, &policy).await;
        assert_eq!(attached.status, ActionStatus::Succeeded, "{}", attached.status_reason);
        Some(Self { clock, harness, cluster, policy })
    }

    async fn by(kind: Kind, profile: &str, mode: &str) -> Option<Self> {
        Self::with(kind, profile, &json!({"type": mode}), Policies::standard()).await
    }

    async fn kill_a_worker(&self) {
        let nodes = self.harness.nodes(self.cluster.id).await;
        let worker = nodes.iter().find(|node| node.role == NodeRole::Worker).expect("a worker");
        self.harness.provider.kill(worker.id, "killed by signal 9");
    }

    async fn healings(&self) -> Vec<Action> {
        let query = ActionQuery { cluster: Some(self.cluster.id), top_level: true, ..ActionQuery::default() };
        let actions = self.harness.store().actions(&query).await.expect("the store answers").items;
        actions.into_iter().filter(|action| action.cause == Cause::Healing).collect()
    }

    /// Returns when earlier changes are processed, because another cluster of the same policy was recovered twice
    /// since.
    async fn has_processed_changes(&self) {
        let other = harness::cluster(FAKE_NODE, 2);
        let created = self.harness.create(&other).await;
        self.harness.ended(created).await;
        attach(&self.harness, &other, &self.policy).await;
        for node in self.harness.nodes(other.id).await {
            self.harness.provider.kill(node.id, "killed by signal 9");
            eventually("a recovered node", PATIENCE, async || {
                let running = self.harness.provider.running();
                if running.contains(&node.id) { Ok(()) } else { Err(format!("{running:?}")) }
            })
            .await;
        }
    }

    async fn is_well_again(&self) {
        self.harness.until_healed(self.cluster.id).await;
        self.harness.until_status(self.cluster.id, ClusterStatus::Active).await;
        let nodes = self.harness.nodes(self.cluster.id).await;
        assert!(nodes.iter().all(|node| node.status == NodeStatus::Active), "{nodes:?}");
        self.harness.assert_agreement(self.cluster.id).await;
    }
}

#[database_test(|kind| HealthScenario::by(kind, FAKE_NODE, "NODE_STATUS_POLLING"))]
async fn a_dead_node_is_recovered_at_the_next_check(scenario: HealthScenario) {
    scenario.clock.a_task_sleeps().await;
    scenario.kill_a_worker().await;
    scenario.harness.until_status(scenario.cluster.id, ClusterStatus::Warning).await;
    assert_eq!(scenario.healings().await, [], "it is not its time yet");
    scenario.clock.advance(INTERVAL);
    scenario.is_well_again().await;
    let [healing] = &scenario.healings().await[..] else { panic!("one recovery") };
    assert_eq!((healing.kind, healing.status), (ActionKind::NodeRecover, ActionStatus::Succeeded));
    let inputs = json!({"operation": "RECREATE", "delete_timeout": 7, "force_recreate": false});
    assert_eq!(healing.inputs, inputs);
}

#[database_test(|kind| HealthScenario::by(kind, FAKE_NODE, "LIFECYCLE_EVENTS"))]
async fn a_reported_change_is_checked_at_once(scenario: HealthScenario) {
    scenario.kill_a_worker().await;
    scenario.is_well_again().await;
}

#[database_test(|kind| HealthScenario::by(kind, FAKE_NODE, "LIFECYCLE_EVENTS"))]
async fn a_recovery_that_failed_is_tried_again_after_an_interval(scenario: HealthScenario) {
    scenario.harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it is broken"));
    scenario.kill_a_worker().await;
    scenario.harness.until_healed(scenario.cluster.id).await;
    scenario.has_processed_changes().await;
    assert_eq!(scenario.healings().await.len(), 1, "its failure is no reason to try again");
    scenario.clock.advance(INTERVAL);
    scenario.harness.until_status(scenario.cluster.id, ClusterStatus::Active).await;
    assert_eq!(scenario.healings().await.len(), 2);
}

#[database_test(|kind| HealthScenario::by(kind, FAKE_CLUSTER, "NODE_STATUS_POLLING"))]
async fn a_policy_replaces_what_is_done_by_default_until_it_is_disabled(scenario: HealthScenario) {
    scenario.clock.a_task_sleeps().await;
    scenario.kill_a_worker().await;
    scenario.harness.until_status(scenario.cluster.id, ClusterStatus::Warning).await;
    assert_eq!(scenario.healings().await, []);
    scenario.clock.advance(INTERVAL);
    scenario.is_well_again().await;
    let kinds = async || scenario.healings().await.iter().map(|action| action.kind).collect::<Vec<_>>();
    assert_eq!(kinds().await, [ActionKind::NodeRecover]);
    let disable = json!({"policy_id": scenario.policy.id, "enabled": false});
    ended(&scenario.harness, ActionKind::ClusterUpdatePolicy, &scenario.cluster, disable).await;
    scenario.kill_a_worker().await;
    eventually("the recovery that is done by default", PATIENCE, async || {
        let kinds = kinds().await;
        if kinds.contains(&ActionKind::ClusterRecover) { Ok(()) } else { Err(format!("{kinds:?}")) }
    })
    .await;
}

/// Returns the configured answer, and counts the calls.
struct Answers {
    answer: Mutex<PollResult>,
    asked: AtomicUsize,
    urls: Mutex<Vec<String>>,
}

#[async_trait]
impl Probe for Answers {
    async fn poll(&self, url: &str, _: &PollUrl) -> PollResult {
        self.urls.lock().expect("not poisoned").push(url.to_owned());
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer.lock().expect("not poisoned").clone()
    }
}

#[database_test]
async fn a_node_that_answers_badly_has_its_time_before_it_is_recovered(kind: Kind) {
    let answers = Arc::new(Answers {
        answer: Mutex::new(PollResult::Unhealthy("it sulks".to_owned())),
        asked: AtomicUsize::new(0),
        urls: Mutex::default(),
    });
    let policies = Policies::standard().with_probe(answers.clone());
    let options = json!({"poll_url": "http://{nodename}/", "poll_url_retry_limit": 1});
    let mode = json!({"type": "NODE_STATUS_POLL_URL", "options": options});
    let Some(scenario) = HealthScenario::with(kind, FAKE_NODE, &mode, policies).await else { return };
    let check = async |count: usize| {
        scenario.clock.a_task_sleeps().await;
        scenario.clock.advance(INTERVAL);
        eventually(&format!("{count} polls"), PATIENCE, async || {
            let asked = answers.asked.load(Ordering::SeqCst);
            if asked < count { Err(asked) } else { Ok(()) }
        })
        .await;
        scenario.clock.a_task_sleeps().await;
    };
    for round in 1..=4 {
        check(2 * round).await;
        assert_eq!(scenario.healings().await, [], "its time is not over after round {round}");
    }
    check(10).await;
    scenario.harness.until_healed(scenario.cluster.id).await;
    let nodes = scenario.harness.nodes(scenario.cluster.id).await;
    let urls = answers.urls.lock().expect("not poisoned").clone();
    assert!(nodes.iter().all(|node| urls.contains(&format!("http://{}/", node.name))), "{urls:?}");
}

/// Never answers.
#[derive(Default)]
struct Silent {
    polled: Notify,
    /// The URLs of polls that wait for an answer.
    waiting: Mutex<Vec<String>>,
}

#[async_trait]
impl Probe for Silent {
    async fn poll(&self, url: &str, _: &PollUrl) -> PollResult {
        self.waiting.lock().expect("not poisoned").push(url.to_owned());
        let _poll = Poll { silent: self, url };
        self.polled.notify_one();
        std::future::pending().await
    }
}

/// A poll that waits for an answer.
struct Poll<'s> {
    silent: &'s Silent,
    url: &'s str,
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        let mut waiting = self.silent.waiting.lock().expect("not poisoned");
        let place = waiting.iter().position(|url| url == self.url).expect("it waits");
        waiting.remove(place);
    }
}

#[database_test]
async fn a_cluster_that_does_not_answer_keeps_no_other_waiting(kind: Kind) {
    let silent = Arc::new(Silent::default());
    let mode = json!({"type": "NODE_STATUS_POLL_URL", "options": {"poll_url": "http://silent/"}});
    let policies = Policies::standard().with_probe(silent.clone());
    let Some(scenario) = HealthScenario::with(kind, FAKE_NODE, &mode, policies).await else { return };
    scenario.clock.a_task_sleeps().await;
    scenario.clock.advance(INTERVAL);
    tokio::time::timeout(PATIENCE.into(), silent.polled.notified()).await.expect("it is asked");
    let other = harness::cluster(FAKE_NODE, 1);
    let created = scenario.harness.create(&other).await;
    scenario.harness.ended(created).await;
    let modes = json!({"detection_modes": [{"type": "NODE_STATUS_POLLING"}]});
    let properties = json!({"detection": modes, "recovery": {"actions": [{"name": "RECREATE"}]}});
    let policy = policy(&scenario.harness, "senlin.policy.health-1.2", properties).await;
    attach(&scenario.harness, &other, &policy).await;
    scenario.clock.a_task_sleeps().await;
    let [node] = &scenario.harness.nodes(other.id).await[..] else { panic!("one node") };
    scenario.harness.provider.kill(node.id, "killed by signal 9");
    scenario.harness.until_status(other.id, ClusterStatus::Warning).await;
    scenario.clock.advance(INTERVAL);
    scenario.harness.until_healed(other.id).await;
    scenario.harness.until_status(other.id, ClusterStatus::Active).await;
}

#[database_test]
async fn a_check_ends_with_its_policy_and_the_next_policy_has_its_own(kind: Kind) {
    let silent = Arc::new(Silent::default());
    let mode = |url| json!({"type": "NODE_STATUS_POLL_URL", "options": {"poll_url": url}});
    let policies = Policies::standard().with_probe(silent.clone());
    let Some(scenario) = HealthScenario::with(kind, FAKE_NODE, &mode("http://old/"), policies).await else {
        return;
    };
    let HealthScenario { clock, harness, cluster, policy: old } = &scenario;
    let waiting_are = async |expected: &[&str]| {
        eventually(&format!("polls of {expected:?}"), PATIENCE, async || {
            let waiting = silent.waiting.lock().expect("not poisoned").clone();
            if waiting == expected { Ok(()) } else { Err(format!("{waiting:?}")) }
        })
        .await;
    };
    clock.a_task_sleeps().await;
    clock.advance(INTERVAL);
    waiting_are(&["http://old/"; 2]).await;
    ended(harness, ActionKind::ClusterDetachPolicy, cluster, json!({"policy_id": old.id})).await;
    let detection = json!({"detection_modes": [mode("http://new/")]});
    let properties = json!({"detection": detection, "recovery": {"actions": [{"name": "RECREATE"}]}});
    let new = policy(harness, "senlin.policy.health-1.2", properties).await;
    attach(harness, cluster, &new).await;
    clock.a_task_sleeps().await;
    clock.advance(INTERVAL);
    waiting_are(&["http://new/"; 2]).await;
}
