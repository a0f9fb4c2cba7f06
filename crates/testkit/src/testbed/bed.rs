//! The parts of a running testbed, each started once.

mod orders;

use std::convert::Infallible;

use anyhow::Result;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{OnceCell, mpsc};

use super::folder::TestbedFolder;
use super::group::{ComponentGroup, Death, Nursery, first_death};
use super::inventory::{PartProblem, TestbedInventory};
use super::kubernetes::KubernetesSite;
use super::operators::Instance;
use super::output::say;
use super::{kubernetes, operators, postgres};
use crate::Operator;
use crate::wire::{OperatorParts, ProgramParts, PythonParts, TestbedAnswer};

/// The largest number of attempts to start a part whose ports other processes take between choice and use.
const ATTEMPTS: usize = 3;

/// The options of Kubernetes in a testbed.
#[derive(Debug)]
pub(super) struct TestKubernetesOptions {
    pub(super) nodes: u16,
    /// The operators that must be ready before Kubernetes counts as ready.
    pub(super) operators: Vec<Operator>,
    /// True if etcd syncs every write.
    pub(super) fsync: bool,
}

/// The parts of a testbed, and their sources.
pub(super) struct TestbedParts {
    pub(super) folder: TestbedFolder,
    pub(super) inventory: TestbedInventory,
    pub(super) shape: TestKubernetesOptions,
    nursery: Nursery,
    all_gone: mpsc::Receiver<Infallible>,
    deaths: mpsc::Sender<Death>,
    running: Mutex<Vec<ComponentGroup>>,
    site: OnceCell<Result<KubernetesSite, TestbedAnswer>>,
    kubernetes: OnceCell<TestbedAnswer>,
    instances: [OnceCell<Result<Instance, TestbedAnswer>>; Operator::ALL.len()],
    postgres: OnceCell<TestbedAnswer>,
}

impl TestbedParts {
    /// A testbed in which nothing runs yet; `deaths` receives components that end by themselves.
    pub(super) fn new(
        folder: TestbedFolder,
        inventory: TestbedInventory,
        shape: TestKubernetesOptions,
        deaths: mpsc::Sender<Death>,
    ) -> Self {
        let (nursery, all_gone) = Nursery::new(folder.logs());
        Self {
            folder,
            inventory,
            shape,
            nursery,
            all_gone,
            deaths,
            running: Mutex::default(),
            site: OnceCell::new(),
            kubernetes: OnceCell::new(),
            instances: Default::default(),
            postgres: OnceCell::new(),
        }
    }

    /// Returns a part, started at its first request; concurrent requests wait for the same start.
    pub(super) async fn answer(&self, want: &str) -> TestbedAnswer {
        match want.split_once('/').unwrap_or((want, "")) {
            ("kubernetes", "") => self.kubernetes.get_or_init(|| self.kubernetes()).await.clone(),
            ("postgres", "") => {
                let start = async || answer_with("PostgreSQL", postgres::start(self).await);
                self.postgres.get_or_init(start).await.clone()
            }
            ("python", environment) => {
                answer_with(want, self.inventory.python(environment).map(|python| PythonParts { python }))
            }
            ("program", name) => {
                answer_with(want, self.inventory.binary(name).map(|program| ProgramParts { program }))
            }
            // For tests that start their own testbed: the file of the running process, since a build may have replaced
            // the program.
            ("testbed", "") => TestbedAnswer::have(&ProgramParts {
                program: format!("/proc/{}/exe", std::process::id()).into(),
            }),
            ("operator", name) => match Operator::named(name) {
                Some(operator) => {
                    self.instance(operator).await.map_or_else(TestbedAnswer::clone, |_| self.log(operator))
                }
                None => no_operator(name),
            },
            ("crds", name) => match Operator::named(name) {
                Some(operator) => match self.site().await {
                    Ok(site) => answer_with(want, operators::make_known(self, site, operator).await),
                    Err(answer) => answer.clone(),
                },
                None => no_operator(name),
            },
            _ => TestbedAnswer::Failed(format!(
                "the testbed has no `{want}`: it has kubernetes, operator/<name>, crds/<name>, postgres, \
                 python/<environment> and program/<name>"
            )),
        }
    }

    /// The shared Kubernetes with its operators.
    async fn kubernetes(&self) -> TestbedAnswer {
        let site = match self.site().await {
            Ok(site) => site,
            Err(answer) => return answer.clone(),
        };
        for operator in &self.shape.operators {
            if let Err(answer) = self.instance(*operator).await {
                return answer.clone();
            }
        }
        answer_with("Kubernetes", kubernetes::publish(self, site).map_err(PartProblem::from))
    }

    async fn site(&self) -> Result<&KubernetesSite, &TestbedAnswer> {
        let start = async || kubernetes::start(self).await.map_err(|trouble| trouble.answer("Kubernetes"));
        self.site.get_or_init(start).await.as_ref()
    }

    async fn instance(&self, operator: Operator) -> Result<&Instance, &TestbedAnswer> {
        let start = async || {
            let site = self.site().await.map_err(TestbedAnswer::clone)?;
            operators::start(self, site, operator)
                .await
                .map_err(|trouble| trouble.answer(operator.component()))
        };
        self.instances[operator as usize].get_or_init(start).await.as_ref()
    }

    fn log(&self, operator: Operator) -> TestbedAnswer {
        TestbedAnswer::have(&OperatorParts {
            log: self.folder.logs().join(format!("{}.log", operator.component())),
        })
    }

    /// Starts components with `start`, and retries if a port was taken; they then run as long as the testbed.
    pub(super) async fn run<T>(&self, start: impl AsyncFn(&mut ComponentGroup) -> Result<T>) -> Result<T> {
        let mut attempt = 1;
        loop {
            let mut group = self.nursery.group();
            match start(&mut group).await {
                Ok(started) => {
                    self.supervise(group);
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

    fn supervise(&self, group: ComponentGroup) {
        let (vitals, deaths) = (group.vitals(), self.deaths.clone());
        tokio::spawn(async move {
            // There is no receiver while the testbed stops, when the ends of components are expected.
            let _ = deaths.send(first_death(vitals).await).await;
        });
        self.running.lock().push(group);
    }

    /// Stops everything and removes the folder.
    pub(super) async fn stop(self) {
        let Self { folder, nursery, mut all_gone, running, .. } = self;
        // In reverse order: operators before their API server.
        for group in running.into_inner().into_iter().rev() {
            group.stop().await;
        }
        drop(nursery);
        // An interrupted start has dropped its group, whose children are still ending.
        while all_gone.recv().await.is_some() {}
        drop(folder);
    }
}

fn no_operator(name: &str) -> TestbedAnswer {
    let known = Operator::ALL.map(Operator::name).join(", ");
    TestbedAnswer::Failed(format!("there is no operator `{name}` in the testbed: it has {known}"))
}

fn answer_with(what: &str, parts: Result<impl Serialize, PartProblem>) -> TestbedAnswer {
    parts.map_or_else(|trouble| trouble.answer(what), |parts| TestbedAnswer::have(&parts))
}

impl PartProblem {
    fn answer(self, what: &str) -> TestbedAnswer {
        match self {
            Self::Missing(why) => TestbedAnswer::Missing(why),
            Self::Failed(error) => TestbedAnswer::Failed(format!("{what} cannot be had: {error:#}")),
        }
    }
}
