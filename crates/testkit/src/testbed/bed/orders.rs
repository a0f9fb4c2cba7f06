//! Taking components of a testbed away, and bringing them back.

use anyhow::{Context as _, Result, bail};
use tokio::time::timeout;

use super::Bed;
use crate::kubernetes::{Component, connect};
use crate::testbed::group::PATIENCE;
use crate::testbed::kubernetes::ready;
use crate::wire::{Answer, Order, ProcessParts};

impl Bed {
    /// Has a component that runs do as it is told; one that is started is waited for.
    pub(in crate::testbed) async fn tell(&self, component: Component, order: Order) -> Answer {
        let told = self.try_tell(component, order).await;
        told.map_or_else(
            |error| Answer::Failed(format!("{}: {error:#}", component.name())),
            |pid| Answer::have(&ProcessParts { pid }),
        )
    }

    async fn try_tell(&self, component: Component, order: Order) -> Result<Option<u32>> {
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
