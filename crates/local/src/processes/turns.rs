//! Frameworks whose nodes have to be started one after the other.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use muster_core::cluster::Framework;
use muster_frameworks::LocalFramework;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Whose turn it is to start, on this machine, whatever the cluster.
#[derive(Default)]
pub(super) struct Turns {
    of: std::sync::Mutex<HashMap<Framework, Arc<Mutex<()>>>>,
}

impl Turns {
    /// Waits for the turn to start a node of a framework, if it has to be one at a time; it lasts until the answer is
    /// dropped.
    pub(super) async fn take(&self, framework: &dyn LocalFramework) -> Option<OwnedMutexGuard<()>> {
        if !framework.starts_alone() {
            return None;
        }
        let turn = {
            let mut turns = self.of.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(framework.framework()).or_default())
        };
        Some(turn.lock_owned().await)
    }
}
