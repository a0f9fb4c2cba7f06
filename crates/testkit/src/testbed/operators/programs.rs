//! The command lines of the operators.

use std::path::Path;

use crate::Operator;
use crate::testbed::kubernetes::KubernetesSite;
use crate::testbed::program::Program;

/// The ports of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct OperatorPorts {
    pub(super) health: u16,
    pub(super) metrics: u16,
    pub(super) webhooks: u16,
}

impl From<[u16; 3]> for OperatorPorts {
    fn from([health, metrics, webhooks]: [u16; 3]) -> Self {
        Self { health, metrics, webhooks }
    }
}

pub(super) fn kuberay(program: &Path, site: &KubernetesSite, ports: OperatorPorts) -> Program {
    operator_program(Operator::KubeRay, program, site)
        .flag("kubeconfig", site.kubeconfig())
        .flag("enable-leader-election", "false")
        .flag("metrics-addr", loopback(ports.metrics))
        .flag("health-probe-bind-address", loopback(ports.health))
}

pub(super) fn domino(program: &Path, site: &KubernetesSite, ports: OperatorPorts) -> Program {
    operator_program(Operator::Domino, program, site)
        .args(["start"])
        .flag("webhook-server-port", ports.webhooks.to_string())
        .flag("metrics-bind-address", loopback(ports.metrics))
        .flag("health-probe-bind-address", loopback(ports.health))
        // The operator searches the certificate of its webhooks in its temporary folder.
        .env("TMPDIR", site.path("domino"))
}

pub(super) fn dask(python: &Path, site: &KubernetesSite, ports: OperatorPorts) -> Program {
    operator_program(Operator::Dask, python, site)
        .args(["-m", "kopf", "run", "-m", "dask_kubernetes.operator.controller", "--all-namespaces"])
        // Without peering, in which instances of kopf negotiate which of them pauses.
        .args(["--standalone"])
        .flag("liveness", format!("http://{}/healthz", loopback(ports.health)))
        // The API server is on this machine: proxies of the environment must not be used.
        .env("no_proxy", "127.0.0.1")
        .env("NO_PROXY", "127.0.0.1")
        // Python would write compiled modules into the environment, which other runs use, too.
        .env("PYTHONDONTWRITEBYTECODE", "1")
}

fn operator_program(operator: Operator, program: &Path, site: &KubernetesSite) -> Program {
    Program::new(operator.component(), program)
        .env("KUBECONFIG", site.kubeconfig())
        // Otherwise operators would read the configuration of the user.
        .env("HOME", site.path("home"))
}

fn loopback(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    type Line = fn(&Path, &KubernetesSite, OperatorPorts) -> Program;

    #[rstest]
    #[case(
        kuberay,
        "/bin/it --kubeconfig=/d/kubeconfig --enable-leader-election=false --metrics-addr=127.0.0.1:2 \
        --health-probe-bind-address=127.0.0.1:1"
    )]
    #[case(
        domino,
        "/bin/it start --webhook-server-port=3 --metrics-bind-address=127.0.0.1:2 \
        --health-probe-bind-address=127.0.0.1:1"
    )]
    #[case(
        dask,
        "/bin/it -m kopf run -m dask_kubernetes.operator.controller --all-namespaces --standalone \
        --liveness=http://127.0.0.1:1/healthz"
    )]
    fn an_operator_is_started_with(#[case] line: Line, #[case] expected: &str) {
        let site = KubernetesSite::at("/d".into(), [0; 5].into());
        let command = line(Path::new("/bin/it"), &site, OperatorPorts::from([1, 2, 3])).command();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert_eq!(words.join(" "), format!("--pdeathsig KILL -- {expected}"));
        let variables: Vec<_> =
            command.get_envs().filter_map(|(name, value)| name.to_str().zip(value)).collect();
        assert!(variables.contains(&("KUBECONFIG", "/d/kubeconfig".as_ref())), "{variables:?}");
    }
}
