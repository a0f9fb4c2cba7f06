//! Reconciliation of a cluster with its intent: one loop (observe, plan, record and apply, wait, give up) with two
//! strategies.
//!
//! The strategies differ in the plan (calls for many nodes, or one write of an object) and in the spec of record (the
//! row, or the object). This module has what they share.

pub(crate) mod delegated;
pub(crate) mod individual;
pub(crate) mod reasons;

use std::time::Duration;

use muster_core::time::{TimeSpan, Timestamp};

use crate::ports::provider::{Observed, ProviderError};
use crate::run::{ActionRun, Stop, summarize};

/// The number of observations that may fail in a row before the action is requeued.
const FAILED_OBSERVATIONS: u32 = 4;

/// The number of attempts that the provider may acknowledge without any effect before the action gives up: about a
/// minute, with back-off.
pub(crate) const FUTILE_ATTEMPTS: u32 = 8;

/// The decision of a strategy after one observation.
pub(crate) enum StrategyVerdict<P> {
    /// Apply this step.
    Apply(P),
    /// Nothing can be done now, for these reasons: observe again when something changes, or at this time.
    Wait(Option<Timestamp>, Vec<String>),
    /// The goal is reached.
    Reached,
    /// No remaining step can reach the goal, for these reasons.
    Unreachable(Vec<String>),
}

/// A way to reconcile the members of a cluster with their goal.
pub(crate) trait Strategy {
    /// The content of one step.
    type Plan;

    /// The longest time without a reported change before the cluster is observed again.
    const POLL_INTERVAL: TimeSpan;

    /// Observes the cluster.
    async fn observe(&mut self, run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop>;

    /// Applies an observation in memory, and decides the next step.
    fn plan(&mut self, run: &mut ActionRun, observed: Observed) -> Result<StrategyVerdict<Self::Plan>, Stop>;

    /// Records a step, and then performs it.
    async fn apply(&mut self, run: &mut ActionRun, plan: Self::Plan) -> Result<(), Stop>;

    /// Commits pending changes, with the reasons for the wait; returns the time at which the next commit is due, if one
    /// is.
    async fn commit_before_wait(
        &mut self,
        run: &mut ActionRun,
        reasons: Vec<String>,
    ) -> Result<Option<Timestamp>, Stop>;

    /// Completes an action whose goal is reached.
    async fn finish(&mut self, run: &mut ActionRun) -> Result<(), Stop>;
}

/// Observes, plans and applies until the goal is reached. `Stop::Failed` names all obstacles.
pub(crate) async fn drive<S: Strategy>(run: &mut ActionRun, strategy: &mut S) -> Result<(), Stop> {
    let mut failed_observations = 0;
    loop {
        run.control.check()?;
        run.world.begin_observation();
        let observed = match strategy.observe(run).await? {
            Ok(observed) => observed,
            Err(error) if !error.transient => return Err(Stop::Failed(error.message)),
            Err(error) => {
                failed_observations += 1;
                log_failed_observation(&error, failed_observations);
                if failed_observations > FAILED_OBSERVATIONS {
                    return Err(Stop::Requeue(error.message));
                }
                let until = run.now().after(run.context.config.retry_delay(failed_observations));
                wait(run, strategy, Some(until), vec![error.message]).await?;
                continue;
            }
        };
        failed_observations = 0;
        match strategy.plan(run, observed)? {
            StrategyVerdict::Apply(plan) => strategy.apply(run, plan).await?,
            StrategyVerdict::Wait(until, reasons) => wait(run, strategy, until, reasons).await?,
            StrategyVerdict::Reached => return strategy.finish(run).await,
            StrategyVerdict::Unreachable(reasons) => return Err(Stop::Failed(summarize(&reasons))),
        }
    }
}

/// Waits until the provider reports a change, a retry or a commit is due, or the poll interval has passed. A waiting
/// action occupies no slot.
async fn wait<S: Strategy>(
    run: &mut ActionRun,
    strategy: &mut S,
    until: Option<Timestamp>,
    reasons: Vec<String>,
) -> Result<(), Stop> {
    let commit_due = strategy.commit_before_wait(run, reasons).await?;
    let now = run.now();
    let moments = until.into_iter().chain(commit_due).map(|moment| moment.since(now));
    let left = moments.min().map_or(S::POLL_INTERVAL, |left| left.min(S::POLL_INTERVAL));
    let wait = async {
        tokio::select! {
            interrupted = run.control.interrupted_or_child_cancelled(&run.children) => interrupted,
            () = run.world.changed() => Ok(()),
            () = tokio::time::sleep(Duration::from(left)) => Ok(()),
        }
    };
    run.control.wait_idly(wait).await
}

/// Logs a failed observation; only at debug level if nothing is wrong, because the observation has only just begun.
fn log_failed_observation(error: &ProviderError, attempts: u32) {
    if error.is_not_yet() {
        tracing::debug!(%error, attempts, "cannot observe yet");
    } else {
        tracing::warn!(%error, attempts, "cannot observe");
    }
}
