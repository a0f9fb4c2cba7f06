//! The start of Kubernetes: real etcd, API server, controller manager and scheduler, with nodes that kwok simulates.

mod nodes;
mod programs;
pub(super) mod ready;
mod site;

use std::fs;

use anyhow::{Context as _, Result};

use self::programs::KubernetesPorts;
pub(super) use self::site::KubernetesSite;
use super::bed::TestbedParts;
use super::group::ComponentGroup;
use super::inventory::{KubernetesBinaries, PartProblem};
use super::ports;
use crate::kubernetes::connect;
use crate::wire::KubernetesParts;

pub(super) async fn start(bed: &TestbedParts) -> Result<KubernetesSite, PartProblem> {
    let binaries = bed.inventory.kubernetes()?;
    Ok(bed.run(async |group| Box::pin(bring_up(bed, &binaries, group)).await).await?)
}

/// Publishes the kubeconfig by a rename once all components are ready: a program that waits for the file finds it
/// complete, and Kubernetes ready.
pub(super) fn publish(bed: &TestbedParts, site: &KubernetesSite) -> Result<KubernetesParts> {
    let kubeconfig = bed.folder.kubeconfig();
    let unpublished = site.path("kubeconfig.published");
    fs::copy(site.kubeconfig(), &unpublished)
        .and_then(|_| fs::rename(&unpublished, &kubeconfig))
        .context("cannot write the kubeconfig")?;
    Ok(KubernetesParts { kubeconfig, log_dir: bed.folder.logs() })
}

async fn bring_up(
    bed: &TestbedParts,
    binaries: &KubernetesBinaries,
    group: &mut ComponentGroup,
) -> Result<KubernetesSite> {
    let ports = KubernetesPorts::from(ports::free()?);
    let site =
        KubernetesSite::prepare(bed.folder.kubernetes(), ports).context("cannot prepare Kubernetes")?;
    group.start(&programs::etcd(binaries, &site, bed.shape.fsync))?;
    group.until("etcd", ready::answers(ready::plain(ports.etcd)?, "/readyz")).await?;
    group.start(&programs::apiserver(binaries, &site))?;
    let admin = connect(&site.kubeconfig(), None).await?;
    group.until("kube-apiserver", ready::answers(admin.clone(), "/readyz")).await?;
    nodes::create(&admin, bed.shape.nodes).await?;
    group.start(&programs::controller_manager(binaries, &site))?;
    group.start(&programs::scheduler(binaries, &site))?;
    group.start(&programs::kwok(binaries, &site))?;
    let scheduler = site.client(ports.scheduler)?;
    tokio::try_join!(
        group.until("kube-controller-manager", ready::makes_service_accounts(admin.clone())),
        group.until("kube-scheduler", ready::answers(scheduler, "/healthz")),
        group.until("kwok", ready::keeps_nodes_ready(admin, bed.shape.nodes)),
    )?;
    Ok(site)
}
