//! Garbage collection: deletes the object of a cluster whose row is history.

use muster_core::event::Level;
use muster_core::time::{TimeSpan, Timestamp};

use crate::events::reason;
use crate::ports::provider::{ObjectState, Observed, ProviderError};
use crate::reconcile::{FUTILE_ATTEMPTS, Strategy, StrategyVerdict, drive};
use crate::run::{ActionRun, Stop};

/// Deletes the object under the action's fence, and waits until it is gone.
#[derive(Default)]
struct Collector {
    deletes: u32,
    not_before: Option<Timestamp>,
}

/// Deletes the leftover object of a deleted cluster. The cluster's row is history and is never written.
pub(crate) async fn collect(run: &mut ActionRun) -> Result<String, Stop> {
    drive(run, &mut Collector::default()).await?;
    Ok("The object of a deleted cluster was removed.".to_owned())
}

impl Strategy for Collector {
    type Plan = ();

    // Watches report changes; poll in case a notification was lost.
    const POLL_INTERVAL: TimeSpan = TimeSpan::from_secs(20);

    async fn observe(&mut self, run: &mut ActionRun) -> Result<Result<Observed, ProviderError>, Stop> {
        run.control.call_provider(run.provider.observe(run.subject.as_target(), &[])).await
    }

    fn plan(&mut self, run: &mut ActionRun, observed: Observed) -> Result<StrategyVerdict<()>, Stop> {
        Ok(match observed.object {
            ObjectState::Absent => StrategyVerdict::Reached,
            ObjectState::Unknown => StrategyVerdict::Wait(None, Vec::new()),
            ObjectState::Present(spec) if spec.leaving => StrategyVerdict::Wait(None, Vec::new()),
            ObjectState::Present(_) if self.deletes >= FUTILE_ATTEMPTS => {
                let why = format!("it still exists after {} acknowledged deletions", self.deletes);
                StrategyVerdict::Unreachable(vec![why])
            }
            ObjectState::Present(_) if self.not_before.is_some_and(|moment| moment > run.now()) => {
                StrategyVerdict::Wait(self.not_before, Vec::new())
            }
            ObjectState::Present(_) => StrategyVerdict::Apply(()),
        })
    }

    async fn apply(&mut self, run: &mut ActionRun, (): ()) -> Result<(), Stop> {
        let operator = run.operator_provider()?;
        run.control.call_provider(operator.delete(run.call())).await??;
        self.deletes += 1;
        self.not_before = Some(run.now().after(run.context.config.retry_delay(self.deletes)));
        Ok(())
    }

    async fn commit_before_wait(
        &mut self,
        _: &mut ActionRun,
        _: Vec<String>,
    ) -> Result<Option<Timestamp>, Stop> {
        Ok(None)
    }

    async fn finish(&mut self, run: &mut ActionRun) -> Result<(), Stop> {
        let (message, now) = ("the object of the deleted cluster still existed and was removed", run.now());
        let cluster = &run.subject.cluster;
        run.journal.report_cluster(cluster, Level::Warn, reason::LEFTOVER_REMOVED, message, now);
        Ok(())
    }
}
