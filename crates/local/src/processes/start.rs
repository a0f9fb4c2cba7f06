//! Starting nodes, and waiting until they work.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use muster_core::node::{Node, NodeRole};
use muster_engine::ports::provider::{FencedCall, NodeResult, ProviderError};
use muster_frameworks::{LocalFramework, Names};

use super::ending::{ended, with_log};
use super::kind::Kind;
use super::launch::Pythons;
use super::ready::Count;
use super::seat::Seat;
use super::stop::not_stopped;
use super::{Inner, on_disk, overtaken, place};
use crate::files;
use crate::shim::{Found, NodeFolder, Running, StartError, Stop};

/// Nodes that are started at the same time, a core: they keep the cores busy while they start, so more would only
/// take longer each.
const AT_A_TIME: usize = 4;

/// How long a node may take to end that did not come to work.
const GIVE_UP_WITHIN: Duration = Duration::from_secs(2);

/// What nodes that are started together need to find out only once.
#[derive(Default)]
struct Together {
    count: Count,
    pythons: Pythons,
}

impl Inner {
    /// Makes what a cluster needs beside its nodes, and says at once if its framework is missing.
    pub(super) async fn prepare(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        files::make_folder(&self.places.cluster(call.cluster.id))
            .and_then(|()| self.note_database(&self.places.cluster(call.cluster.id)))
            .map_err(|error| on_disk("the cluster's folder cannot be made", &error))?;
        // It was there when the cluster was asked for, which may be a while ago.
        self.has_framework(call.profile).await
    }

    /// Starts nodes, a result each as they come.
    pub(super) fn start<'a>(
        &'a self,
        call: FencedCall<'a>,
        nodes: Vec<Node>,
    ) -> impl Stream<Item = NodeResult> + Send + 'a {
        let together = Arc::new(Together::default());
        let one = move |node: Node| {
            let together = Arc::clone(&together);
            async move {
                let result = self.start_one(call, &node, &together).await;
                NodeResult { node: node.id, result: result.map(Some) }
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        futures::stream::iter(nodes).map(one).buffer_unordered(AT_A_TIME * cores)
    }

    async fn start_one(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        together: &Together,
    ) -> Result<String, ProviderError> {
        let folder = self.folder(call.target(), node.id);
        let framework = Kind::of(&call.profile.kind).and_then(Kind::framework);
        if !framework.is_some_and(LocalFramework::starts_alone) {
            return self.start_now(call, node, &folder, together).await;
        }
        let turn = tokio::select! {
            // Before the turn: the head may have ended in that of another.
            biased;
            lost = self.head_lost(call, node) => return Err(lost),
            turn = self.turns.take(call.cluster.id) => turn,
        };
        turn.lasts_for(self.start_now(call, node, &folder, together)).await
    }

    async fn start_now(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        together: &Together,
    ) -> Result<String, ProviderError> {
        let (running, seat) = self.run(call, node, folder, together).await?;
        self.exits.watch(&running);
        let pid = running.process().map_or_else(String::new, |process| process.pid.to_string());
        tokio::select! {
            works = self.works(call, node, folder, &seat, &together.count) => works?,
            outcome = running.exited() => return Err(ended(folder, outcome)),
            lost = self.head_lost(call, node) => return Err(lost),
            () = tokio::time::sleep(self.settings.start_within) => {
                return Err(self.too_slow(call, folder).await);
            }
        }
        Seat { works: true, ..seat }.keep(folder).map_err(|error| on_disk("the node's folder", &error))?;
        Ok(pid)
    }

    /// Starts the process, or finds the one that runs.
    async fn run(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        together: &Together,
    ) -> Result<(Running, Seat), ProviderError> {
        let disk = |error: std::io::Error| on_disk("the node's folder cannot be used", &error);
        self.stop_unusable(call, node, folder).await?;
        let runs = matches!(self.shims.find(folder).map_err(disk)?, Found::Running(_));
        let seat = match Seat::of(folder).filter(|_| runs) {
            Some(seat) => seat,
            None => {
                let framework = Kind::of(&call.profile.kind).and_then(Kind::framework);
                if let Some(framework) = framework.filter(|_| node.role == NodeRole::Head) {
                    self.ports_to_start(framework, call.cluster.id).await?;
                    files::make_folder(&self.places.kept(call.cluster.id)).map_err(disk)?;
                    self.make_short(call.cluster.id)?;
                }
                if framework.is_some() {
                    self.make_temporary(call.cluster.id, node)?;
                }
                let names = framework.map_or(Names::Free, LocalFramework::names);
                folder.make().map_err(disk)?;
                if matches!(Kind::of(&call.profile.kind), Some(Kind::Process)) {
                    self.note_database(&self.places.own(node.id)).map_err(disk)?;
                }
                files::make_empty_folder(&place::work(folder)).map_err(disk)?;
                // Nodes that start at the same time choose one after the other.
                let _choosing = self.choosing_devices.lock();
                let gpus = self.devices(call, node)?;
                let seat = Seat { gpus, ..Seat::new(call.cluster.id, node, call.fence, names) };
                seat.keep(folder).map_err(disk)?;
                seat
            }
        };
        let launch = self.launch(call, node, folder, &seat, &together.pythons).await?;
        let running = self.shims.start(folder, &launch).await.map_err(|error| not_started(&error))?;
        Ok((running, seat))
    }

    /// Ends a process that its head gives no work any more: the node needs another.
    async fn stop_unusable(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
    ) -> Result<(), ProviderError> {
        if Seat::of(folder).is_some_and(|seat| seat.draining) || self.census.is_missing(node.id) {
            let stopped = self.shims.stop(folder, call.fence, Stop::within(GIVE_UP_WITHIN)).await;
            stopped.map_err(|error| not_stopped(&error))?;
            self.census.forget(node.id);
        }
        Ok(())
    }

    /// One that did not come to work in time is ended: nobody waits for it any more.
    async fn too_slow(&self, call: FencedCall<'_>, folder: &NodeFolder) -> ProviderError {
        let sentence = format!("it did not work within {} s", self.settings.start_within.as_secs());
        let error = ProviderError::permanent("StartTimeout", with_log(folder, &sentence));
        if let Err(error) = self.shims.stop(folder, call.fence, Stop::within(GIVE_UP_WITHIN)).await {
            tracing::warn!(node = %folder.node(), %error, "cannot be ended");
        }
        error
    }
}

fn not_started(error: &StartError) -> ProviderError {
    match error {
        StartError::CannotRun { message, .. } => ProviderError::permanent("CommandNotFound", message.clone()),
        StartError::Refused(refused) => overtaken(*refused),
        error => ProviderError::transient("ShimFailed", error.to_string()),
    }
}
