//! The parts of a running testbed, each started once.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde::Serialize;
use tokio::sync::{OnceCell, mpsc};

use super::folder::Folder;
use super::group::{Death, Group, Nursery, first_death};
use super::inventory::{Inventory, Trouble};
use super::output::say;
use super::{kubernetes, postgres};
use crate::wire::{Answer, PythonParts};

/// How often a part is started when others keep taking its ports between their choice and their use.
const ATTEMPTS: usize = 3;

/// What a testbed has, and what it is made from.
pub(super) struct Bed {
    pub(super) folder: Folder,
    pub(super) inventory: Inventory,
    pub(super) nodes: u16,
    nursery: Nursery,
    all_gone: mpsc::Receiver<Infallible>,
    deaths: mpsc::Sender<Death>,
    running: Mutex<Vec<Group>>,
    kubernetes: OnceCell<Answer>,
    postgres: OnceCell<Answer>,
}

impl Bed {
    /// A testbed in which nothing runs yet; `deaths` hears of components that end by themselves.
    pub(super) fn new(folder: Folder, inventory: Inventory, nodes: u16, deaths: mpsc::Sender<Death>) -> Self {
        let (nursery, all_gone) = Nursery::new(folder.logs());
        Self {
            folder,
            inventory,
            nodes,
            nursery,
            all_gone,
            deaths,
            running: Mutex::default(),
            kubernetes: OnceCell::new(),
            postgres: OnceCell::new(),
        }
    }

    /// Gives what is wanted, started if it is the first time; those who want it meanwhile wait for the same start.
    pub(super) async fn answer(&self, want: &str) -> Answer {
        match (want, want.strip_prefix("python/")) {
            (_, Some(environment)) => {
                answer_with(want, self.inventory.python(environment).map(|python| PythonParts { python }))
            }
            ("kubernetes", _) => {
                let start = async || answer_with("Kubernetes", kubernetes::start(self).await);
                self.kubernetes.get_or_init(start).await.clone()
            }
            ("postgres", _) => {
                let start = async || answer_with("PostgreSQL", postgres::start(self).await);
                self.postgres.get_or_init(start).await.clone()
            }
            _ => Answer::Failed(format!(
                "the testbed has no `{want}`: it has kubernetes, postgres and python/<environment>"
            )),
        }
    }

    /// Starts components with `start`, once more if a port was taken; they then run as long as the testbed.
    pub(super) async fn run<T>(&self, start: impl AsyncFn(&mut Group) -> Result<T>) -> Result<T> {
        let mut attempt = 1;
        loop {
            let mut group = self.nursery.group();
            match start(&mut group).await {
                Ok(started) => {
                    self.keep(group);
                    return Ok(started);
                }
                Err(error) => {
                    group.stop().await;
                    let port_was_taken = error.downcast_ref().is_some_and(Death::port_was_taken);
                    if !port_was_taken || attempt == ATTEMPTS {
                        return Err(error);
                    }
                    say!("a port was taken meanwhile, starting again with others: {error:#}");
                    attempt += 1;
                }
            }
        }
    }

    fn keep(&self, group: Group) {
        let (vitals, deaths) = (group.vitals(), self.deaths.clone());
        tokio::spawn(async move {
            // Nobody listens any more when the testbed is being stopped, and then ends are what is wanted.
            let _ = deaths.send(first_death(vitals).await).await;
        });
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(group);
    }

    /// Stops everything and removes the folder.
    pub(super) async fn stop(self) {
        let Self { folder, nursery, mut all_gone, running, .. } = self;
        for group in running.into_inner().unwrap_or_else(PoisonError::into_inner) {
            group.stop().await;
        }
        drop(nursery);
        // A start that was interrupted has dropped its group: its children are still ending.
        while all_gone.recv().await.is_some() {}
        drop(folder);
    }
}

fn answer_with(what: &str, parts: Result<impl Serialize, Trouble>) -> Answer {
    match parts {
        Ok(parts) => Answer::have(&parts),
        Err(Trouble::Missing(why)) => Answer::Missing(why),
        Err(Trouble::Failed(error)) => Answer::Failed(format!("{what} cannot be had: {error:#}")),
    }
}
