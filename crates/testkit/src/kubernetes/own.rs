//! A Kubernetes of one test, whose parts it may take away.

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

/// How long the testbed may take until it answers; it starts its parts later.
const START: Duration = Duration::from_mins(1);
/// How long the testbed may take to stop its parts.
const END: Duration = Duration::from_secs(30);

/// A part of Kubernetes that a test can take away and bring back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The API server. Down for more than 30 seconds, it finds kwok's pods not ready for good.
    ApiServer,
    /// An operator that was asked for.
    Operator(Operator),
}

impl Component {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::Operator(operator) => operator.component(),
        }
    }
}

/// What a Kubernetes of one's own is like.
#[derive(Debug, Default)]
pub struct Options {
    /// Its etcd waits for the disk with every write. Without that, its data is not worth a sync.
    pub fsync: bool,
    /// An empty folder for what it keeps, such as one on a real disk; by default one in the temporary folder.
    pub dir: Option<PathBuf>,
}

/// A Kubernetes of this test alone, or `None` if the test is skipped. It needs the time of a start, about 6 seconds:
/// it is for tests that the others would suffer from. Call it on the test's own thread, as [`Process`] wants it.
pub async fn own_kubernetes() -> Option<OwnKubernetes> {
    own_kubernetes_with(Options::default()).await
}

/// The same, other than usual.
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
    let testbed = Testbed { process };
    let kubernetes = Kubernetes::of(Path::new(folder)).await?;
    Some(OwnKubernetes { kubernetes, _testbed: testbed })
}

/// A Kubernetes of one test, which ends with it. It has no custom resources until they are asked for.
pub struct OwnKubernetes {
    kubernetes: Kubernetes,
    _testbed: Testbed,
}

impl Deref for OwnKubernetes {
    type Target = Kubernetes;

    fn deref(&self) -> &Kubernetes {
        &self.kubernetes
    }
}

impl OwnKubernetes {
    /// Makes the custom resources of an operator known without running it; `None` if the test is skipped.
    pub async fn custom_resources(&self, of: Operator) -> Option<()> {
        shared::obtain_from(&self.kubernetes.testbed, &format!("crds/{}", of.name())).await
    }

    /// Has a component stand still (SIGSTOP): its connections stay open, and nothing answers.
    pub async fn freeze(&self, component: Component) {
        self.tell(component, Order::Freeze).await;
    }

    /// Has a frozen component go on.
    pub async fn thaw(&self, component: Component) {
        self.tell(component, Order::Thaw).await;
    }

    /// Kills a component (SIGKILL), which is then gone until it is started.
    pub async fn kill(&self, component: Component) {
        self.tell(component, Order::Kill).await;
    }

    /// Starts a killed component on the same ports and data, and waits until it answers.
    pub async fn start(&self, component: Component) {
        self.tell(component, Order::Start).await;
    }

    /// The process of a component; none while it is killed.
    pub async fn pid(&self, component: Component) -> Option<u32> {
        self.tell(component, Order::Identify).await.pid
    }

    async fn tell(&self, component: Component, order: Order) -> ProcessParts {
        shared::tell(&self.kubernetes.testbed, order, component).await
    }
}

/// The process that owns it.
struct Testbed {
    process: Process,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // In order, so that its folder is not removed while its children write there.
        self.process.end_by_stdin(END);
    }
}
