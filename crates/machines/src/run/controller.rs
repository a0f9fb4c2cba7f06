//! The controller: a pass over a group observes, decides and writes. Only the controller of the leader runs.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::apply::{MachinesWriter, is_missing, message};
use super::definitions;
use super::observe::GroupObservation;
use super::report::Reporter;
use super::settings::MachinesSettings;
use super::world::ObservedWorld;
use crate::decide::ledger::{admissible, gate_removals};
use crate::decide::machine_pass::{MachinePlan, plan_machine};
use crate::decide::nodes::{FinalizerStep, plan_nodes, wanted_pool};
use crate::decide::reservations::machine_status;
use crate::decide::slot_pod::SlotPod;
use crate::keys;
use crate::types::{Machine, MachineNodePool};

/// The interval of passes over every group without a change, for decisions that depend on time.
const PERIOD: Duration = Duration::from_mins(1);

/// The first and the longest back-off after a failed pass over a group.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The reason why a pass was not completed. Writes that succeeded stay, and the next pass continues.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    /// The caches of this replica are older than the last write: another replica leads, or a watch is late.
    #[error("it was changed meanwhile")]
    Stale,
    /// The API server dropped the ledger, because the definition lacks the field.
    #[error("the ledger was not stored: {}", definitions::OF_ANOTHER_VERSION)]
    LedgerDropped,
    /// Kubernetes rejected a request or did not respond.
    #[error(transparent)]
    Kubernetes(#[from] kube::Error),
    /// Some writes failed, which did not prevent the other writes.
    #[error("{0}")]
    Problems(String),
}

pub(crate) struct Controller {
    world: ObservedWorld,
    writer: MachinesWriter,
    settings: MachinesSettings,
    reporter: Reporter,
    leads: watch::Receiver<bool>,
    groups: HashMap<String, GroupProgress>,
}

/// The state of a group between passes.
#[derive(Debug, Default)]
struct GroupProgress {
    /// The messages of the Machine's writes that failed in the last pass.
    problems: Vec<String>,
    /// The back-off before the next pass, and its end.
    retry: Option<(Duration, Instant)>,
}

impl Controller {
    pub(crate) fn new(
        world: ObservedWorld,
        writer: MachinesWriter,
        settings: MachinesSettings,
        reporter: Reporter,
        leads: watch::Receiver<bool>,
    ) -> Self {
        Self { world, writer, settings, reporter, leads, groups: HashMap::new() }
    }

    /// Runs until the election ends; idle while another replica leads.
    pub(crate) async fn run(mut self) {
        self.world.complete().await;
        let mut period = Instant::now();
        loop {
            if !*self.leads.borrow_and_update() {
                // Another replica reports the metrics now.
                self.reporter.forget();
            }
            if self.leads.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            let now = Instant::now();
            if period <= now {
                self.world.mark(None);
                period = now + PERIOD;
            }
            let is_due = |progress: &GroupProgress| progress.retry.is_some_and(|(_, at)| at <= now);
            for (group, _) in self.groups.iter().filter(|(_, progress)| is_due(progress)) {
                self.world.mark(Some(group));
            }
            for group in self.world.take_changed() {
                if !*self.leads.borrow() {
                    break;
                }
                let started = Instant::now();
                let passed = self.pass(&group).await;
                self.reporter.passed(started.elapsed());
                self.note(group, passed);
            }
            let retries = self.groups.values().filter_map(|progress| progress.retry);
            let wake = retries.map(|(_, at)| at).min().map_or(period, |at| at.min(period));
            tokio::select! {
                () = self.world.changed() => {}
                () = sleep_until(wake) => {}
                // Another replica may have led meanwhile: pass over every group.
                _ = self.leads.changed() => period = Instant::now(),
            }
        }
    }

    fn note(&mut self, group: String, passed: Result<(), PassError>) {
        let progress = self.groups.entry(group).or_default();
        let Err(error) = passed else {
            progress.retry = None;
            return;
        };
        let wait = match progress.retry {
            Some((wait, _)) if !matches!(error, PassError::Stale) => (wait * 2).min(LAST_RETRY),
            _ => FIRST_RETRY,
        };
        progress.retry = Some((wait, Instant::now() + wait));
        if matches!(error, PassError::LedgerDropped) {
            tracing::warn!("{error}");
        }
        tracing::debug!(?wait, "a pass over a machine group was not completed: {error}");
    }

    async fn pass(&mut self, name: &str) -> Result<(), PassError> {
        let mut group = GroupObservation::observe(&self.world, name, &self.settings.namespace);
        let mut problems = Vec::new();
        self.reporter.forget_others(name, &group.pods, &group.rivals);
        self.reporter.unserved(name, &group.unserved());
        if group.machine.is_none() {
            self.reporter.without_machine(name, &group.guests());
        }
        if let Some(machine) = group.machine.clone() {
            self.confirm_holders(&machine, &mut group.pods).await?;
            problems = self.pass_over_machine(&group, machine).await?;
            // Problems of nodes are left out: the status of the Machine would change with every pass.
            self.groups.entry(name.to_owned()).or_default().problems.clone_from(&problems);
            for rival in &group.rivals {
                self.reporter.rival(rival, &group.name);
            }
        }
        if let Some(pool) = &group.pool {
            problems.extend(self.pass_over_nodes(&group, pool).await?);
            for published in &group.published_pools {
                self.writer.remove_published(published).await?;
            }
            // Their nodes are in the group's present pool now, or were cleaned with it.
            for left in &group.left_pools {
                self.release(left).await?;
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(PassError::Problems(problems.join("; "))) }
    }

    /// Reads guests of the ledger that are missing in the cache, which may be stale: a slot is free only when its guest
    /// is known to be gone.
    async fn confirm_holders(&self, machine: &Machine, pods: &mut Vec<SlotPod>) -> Result<(), PassError> {
        let mut known: BTreeSet<String> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for booking in machine.bookings() {
            if known.insert(booking.uid.clone())
                && let Some(pod) = self.writer.pod(&booking.namespace, &booking.name).await?
                && pod.uid == booking.uid
            {
                pods.push(pod);
            }
        }
        Ok(())
    }

    /// Assigns slots to guests, and reserves the free slots. Returns the messages of failed writes.
    async fn pass_over_machine(
        &self,
        group: &GroupObservation,
        machine: Machine,
    ) -> Result<Vec<String>, PassError> {
        let now = self.settings.clock.now();
        let before = self.groups.get(&group.name).map(|progress| progress.problems.clone());
        let before = before.unwrap_or_default();
        let observed = group.machine(&machine, self.settings.health);
        let MachinePlan { ledger, capacities, writes, held_back } =
            plan_machine(&observed, self.settings.reservations(), now);
        // The ledger and all counts are one write, under the version that was read. Reservations are reduced and gates
        // removed only after it.
        let status = machine_status(&observed, ledger.clone(), &capacities, &before, now);
        let written = match status {
            Some(status) => self.writer.write_status(&machine, status).await?,
            None => machine.clone(),
        };
        let acknowledged: BTreeSet<&str> =
            written.bookings().iter().map(|entry| entry.uid.as_str()).collect();
        if !ledger.iter().all(|booking| acknowledged.contains(booking.uid.as_str())) {
            return Err(PassError::LedgerDropped);
        }
        let mut problems = self.writer.write_reservations(writes).await;
        let admitted = admissible(
            &machine,
            written.bookings(),
            &observed.guests,
            &observed.reservations,
            &held_back,
            now,
        );
        let removals = gate_removals(written.bookings(), &admitted);
        for (removal, removed) in self.writer.remove_gates(removals).await {
            match removed {
                Ok(()) => self.reporter.booked(&removal, &observed.guests, now),
                Err(error) if is_missing(&error) => {}
                Err(error) => {
                    problems.push(format!("pod {}/{}: {}", removal.namespace, removal.name, message(&error)));
                }
            }
        }
        if let Some(pool) = wanted_pool(&machine, &group.name, group.pool.as_ref()) {
            let applied = self.writer.apply_pool(&pool).await;
            let failed = |error| format!("pool {}: {}", pool.name_any(), message(&error));
            problems.extend(applied.err().map(failed));
        }
        if problems != before {
            let observed = group.machine(&written, self.settings.health);
            if let Some(status) = machine_status(&observed, ledger.clone(), &capacities, &problems, now) {
                self.writer.write_status(&written, status).await?;
            }
        }
        self.reporter.counts(&observed, &ledger, now, self.settings.unplaced_after);
        Ok(problems)
    }

    /// Labels, taints and cleans nodes. Returns the messages of failed writes.
    async fn pass_over_nodes(
        &self,
        group: &GroupObservation,
        pool: &MachineNodePool,
    ) -> Result<Vec<String>, PassError> {
        let now = self.settings.clock.now();
        self.writer.release_pool(pool).await?;
        let plan = plan_nodes(&group.pool(pool, self.settings.health), now);
        match plan.finalizer {
            FinalizerStep::Add => {
                let mut finalizers = pool.finalizers().to_vec();
                finalizers.push(keys::POOL_FINALIZER.to_owned());
                self.writer.set_finalizers(pool, finalizers).await?;
            }
            FinalizerStep::Keep => {}
            FinalizerStep::Remove => self.release(pool).await?,
        }
        let problems = self.writer.write_nodes(plan.writes).await;
        if let Some(status) = plan.status {
            self.writer.write_pool_status(pool, status).await?;
        }
        self.reporter.cleaned(pool, &plan.cleaned);
        Ok(problems)
    }

    /// Removes Muster's finalizer from a pool.
    async fn release(&self, pool: &MachineNodePool) -> Result<(), PassError> {
        let others = pool.finalizers().iter().filter(|name| *name != keys::POOL_FINALIZER);
        self.writer.set_finalizers(pool, others.cloned().collect()).await
    }
}
