//! Operators, as processes of this machine with admin permissions.

mod definitions;
mod programs;
mod webhooks;

use std::path::Path;

use anyhow::{Context as _, Result};
use kube::Client;

use self::programs::OperatorPorts;
use super::bed::TestbedParts;
use super::group::ComponentGroup;
use super::inventory::{OperatorFiles, PartProblem};
use super::kubernetes::{KubernetesSite, ready};
use super::ports;
use crate::Operator;
use crate::kubernetes::connect;

/// An operator that was started.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) operator: Operator,
    ports: OperatorPorts,
}

/// Starts an operator in the Kubernetes of that site, with its custom resource definitions.
pub(super) async fn start(
    bed: &TestbedParts,
    site: &KubernetesSite,
    operator: Operator,
) -> Result<Instance, PartProblem> {
    let files = bed.inventory.operator(operator)?;
    let admin = connect(&site.kubeconfig(), None).await?;
    definitions::make(&admin, &files.crds).await?;
    let instance =
        bed.run(async |group| Box::pin(bring_up(site, &admin, operator, &files, group)).await).await?;
    Ok(instance)
}

/// Creates the custom resource definitions of an operator, without starting it.
pub(super) async fn make_known(
    bed: &TestbedParts,
    site: &KubernetesSite,
    operator: Operator,
) -> Result<(), PartProblem> {
    let crds = bed.inventory.crds(operator)?;
    let admin = connect(&site.kubeconfig(), None).await?;
    Ok(definitions::make(&admin, &crds).await?)
}

async fn bring_up(
    site: &KubernetesSite,
    admin: &Client,
    operator: Operator,
    files: &OperatorFiles,
    group: &mut ComponentGroup,
) -> Result<Instance> {
    let instance = Instance { operator, ports: OperatorPorts::from(ports::free()?) };
    let ports = instance.ports;
    let program = match operator {
        Operator::KubeRay => programs::kuberay(&files.program, site, ports),
        Operator::Dask => programs::dask(&files.program, site, ports),
        Operator::Domino => {
            let file: &Path = files.webhooks.as_deref().context("the module of domino has no webhooks")?;
            webhooks::write_certificate(site)?;
            webhooks::register(admin, file, ports.webhooks, site.authority_pem()).await?;
            programs::domino(&files.program, site, ports)
        }
    };
    group.start(&program)?;
    group.until(operator.component(), instance.ready(admin)).await?;
    Ok(instance)
}

impl Instance {
    /// Waits until the operator responds. It need not watch yet: its first list contains objects that were created
    /// before.
    pub(super) async fn ready(&self, admin: &Client) -> Result<()> {
        ready::answers(ready::plain(self.ports.health)?, "/healthz").await?;
        match self.operator {
            Operator::Domino => webhooks::answer(admin).await,
            Operator::KubeRay | Operator::Dask => Ok(()),
        }
    }
}
