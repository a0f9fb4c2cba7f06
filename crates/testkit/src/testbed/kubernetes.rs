//! Kubernetes: real etcd, API server, controller manager and scheduler, with kwok's nodes.

mod nodes;
mod programs;
pub(super) mod ready;
mod site;

use std::fs;

use anyhow::{Context as _, Result};

use self::programs::Ports;
pub(super) use self::site::Site;
use super::bed::Bed;
use super::group::Group;
use super::inventory::{KubernetesBinaries, Trouble};
use super::ports;
use crate::kubernetes::connect;
use crate::wire::KubernetesParts;

pub(super) async fn start(bed: &Bed) -> Result<Site, Trouble> {
    let binaries = bed.inventory.kubernetes()?;
    Ok(bed.run(async |group| Box::pin(bring_up(bed, &binaries, group)).await).await?)
}

/// Puts the kubeconfig where people and tests look for it: who waits for the file finds it complete, and everything
/// behind it ready.
pub(super) fn publish(bed: &Bed, site: &Site) -> Result<KubernetesParts> {
    let kubeconfig = bed.folder.kubeconfig();
    let unpublished = site.path("kubeconfig.published");
    fs::copy(site.kubeconfig(), &unpublished)
        .and_then(|_| fs::rename(&unpublished, &kubeconfig))
        .context("cannot write the kubeconfig")?;
    Ok(KubernetesParts { kubeconfig, log_dir: bed.folder.logs() })
}

async fn bring_up(bed: &Bed, binaries: &KubernetesBinaries, group: &mut Group) -> Result<Site> {
    let ports = Ports::from(ports::free()?);
    let site = Site::prepare(bed.folder.kubernetes(), ports).context("cannot prepare Kubernetes")?;
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
