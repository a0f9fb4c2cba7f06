//! A Kubernetes of one test, whose components can be stopped.

use std::env;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Kubernetes, Operator};
use crate::process::Process;
use crate::shared::{self, NO_TESTBED};
use crate::wire::{Order, ProcessParts, ProgramParts};

/// The longest time until the testbed responds; it starts its parts later.
const START: Duration = Duration::from_mins(1);
/// The longest time for the testbed to stop its parts.
const END: Duration = Duration::from_secs(30);

/// A component of Kubernetes that a test can stop and start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The API server. If it is down for more than 30 seconds, kwok's pods stay not ready.
    ApiServer,
    /// The controllers of Kubernetes.
    ControllerManager,
    /// kwok, which simulates the kubelets. If it is frozen for more than 30 seconds, its nodes become not ready.
    Kwok,
    /// A requested operator.
    Operator(Operator),
}

impl Component {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kwok => "kwok",
            Self::Operator(operator) => operator.component(),
        }
    }
}

/// The options of a Kubernetes of one test.
#[derive(Debug, Default)]
pub struct Options {
    /// True if etcd syncs every write to the disk.
    pub fsync: bool,
    /// An empty folder for the data, such as one on a real disk; by default a new one in the temporary folder.
    pub dir: Option<PathBuf>,
}

/// Starts a Kubernetes for this test alone; `None` if the test is skipped. The start takes about 6 seconds, so that it
/// is only for tests that would disturb others. Call it on the test's own thread, as [`Process`] requires.
pub async fn own_kubernetes() -> Option<OwnKubernetes> {
    own_kubernetes_with(Options::default()).await
}

/// Starts a Kubernetes with options for this test alone; `None` if the test is skipped.
pub async fn own_kubernetes_with(options: Options) -> Option<OwnKubernetes> {
    let Options { fsync, dir } = options;
    let shared = PathBuf::from(env::var_os("MUSTER_TESTBED").expect(NO_TESTBED));
    let ProgramParts { program } = shared::obtain("testbed").await?;
    let mut command = Command::new(program);
    command.args(["--lazy", "--until-eof", "--inventory"]).arg(shared.join("inventory.json"));
    command.args(fsync.then_some("--fsync"));
    if let Some(dir) = dir {
        command.arg("--dir").arg(dir);
    }
    let process = Process::spawn("testbed", &command);
    let announced = process.wait_for_line("export MUSTER_TESTBED=", START).await;
    let folder = announced.split_once('=').expect("a variable and its value").1;
    let testbed = TestbedProcess { process };
    let kubernetes = Kubernetes::of_testbed(Path::new(folder)).await?;
    Some(OwnKubernetes { kubernetes, _testbed: testbed })
}

/// A Kubernetes of one test, which is stopped when this value is dropped. It has no custom resource definitions until
/// they are requested.
pub struct OwnKubernetes {
    kubernetes: Kubernetes,
    _testbed: TestbedProcess,
}

impl Deref for OwnKubernetes {
    type Target = Kubernetes;

    fn deref(&self) -> &Kubernetes {
        &self.kubernetes
    }
}

impl OwnKubernetes {
    /// Creates the custom resource definitions of an operator without running it; `None` if the test is skipped.
    pub async fn custom_resources(&self, of: Operator) -> Option<()> {
        shared::obtain_from(&self.kubernetes.testbed, &format!("crds/{}", of.name())).await
    }

    /// Freezes a component (SIGSTOP): its connections stay open without responses.
    pub async fn freeze(&self, component: Component) {
        self.order(component, Order::Freeze).await;
    }

    /// Continues a frozen component.
    pub async fn thaw(&self, component: Component) {
        self.order(component, Order::Thaw).await;
    }

    /// Kills a component (SIGKILL), which stays down until it is started.
    pub async fn kill(&self, component: Component) {
        self.order(component, Order::Kill).await;
    }

    /// Starts a killed component on the same ports and data, and waits until it responds.
    pub async fn start(&self, component: Component) {
        self.order(component, Order::Start).await;
    }

    /// The pid of a component; `None` while it is killed.
    pub async fn pid(&self, component: Component) -> Option<u32> {
        self.order(component, Order::Identify).await.pid
    }

    async fn order(&self, component: Component, order: Order) -> ProcessParts {
        shared::order(&self.kubernetes.testbed, order, component).await
    }
}

/// The testbed process that owns a Kubernetes.
struct TestbedProcess {
    process: Process,
}

impl Drop for TestbedProcess {
    fn drop(&mut self) {
        // Waits for the children, so that the folder is not removed while they write to it.
        self.process.end_by_stdin(END);
    }
}
