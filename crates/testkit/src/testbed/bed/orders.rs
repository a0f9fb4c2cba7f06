//! Orders to components of a testbed: freeze, continue, kill, start.

use anyhow::{Context as _, Result, bail};
use tokio::time::timeout;

use super::TestbedParts;
use crate::kubernetes::{Component, connect};
use crate::testbed::group::PATIENCE;
use crate::testbed::kubernetes::ready;
use crate::wire::{Order, ProcessParts, TestbedAnswer};

impl TestbedParts {
    /// Sends an order to a component, and waits until a started component is ready.
    pub(in crate::testbed) async fn order(&self, component: Component, order: Order) -> TestbedAnswer {
        let done = self.try_order(component, order).await;
        done.map_or_else(
            |error| TestbedAnswer::Failed(format!("{}: {error:#}", component.name())),
            |pid| TestbedAnswer::have(&ProcessParts { pid }),
        )
    }

    async fn try_order(&self, component: Component, order: Order) -> Result<Option<u32>> {
        let orders = {
            let running = self.running.lock();
            running.iter().find_map(|group| group.orders(component.name()))
        };
        let pid = orders.context("it was never started")?.give(order).await?;
        if order != Order::Start {
            return Ok(pid);
        }
        let site = self.site.get().and_then(|site| site.as_ref().ok()).context("there is no Kubernetes")?;
        let admin = connect(&site.kubeconfig(), None).await?;
        match component {
            Component::ApiServer => in_time(ready::answers(admin, "/readyz")).await?,
            // These have no readiness endpoint that a test needs: their effect is visible in the objects that they
            // write.
            Component::ControllerManager | Component::Kwok => {}
            Component::Operator(operator) => match self.instances[operator as usize].get() {
                Some(Ok(instance)) => in_time(instance.ready(&admin)).await?,
                _ => bail!("it was never ready"),
            },
        }
        Ok(pid)
    }
}

async fn in_time(ready: impl Future<Output = Result<()>>) -> Result<()> {
    timeout(PATIENCE, ready).await.with_context(|| format!("it is not ready after {PATIENCE:?}"))?
}
