//! Orders to components of a testbed: freeze, continue, kill, start.

use anyhow::{Context as _, Result, bail};
use tokio::time::timeout;

use super::Bed;
use crate::kubernetes::{Component, connect};
use crate::testbed::group::PATIENCE;
use crate::testbed::kubernetes::ready;
use crate::wire::{Answer, Order, ProcessParts};

impl Bed {
    /// Sends an order to a component that runs; a started one is waited for.
    pub(in crate::testbed) async fn order(&self, component: Component, order: Order) -> Answer {
        let done = self.try_order(component, order).await;
        done.map_or_else(
            |error| Answer::Failed(format!("{}: {error:#}", component.name())),
            |pid| Answer::have(&ProcessParts { pid }),
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
            // These have nothing to answer with: what they do shows in what they write.
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
