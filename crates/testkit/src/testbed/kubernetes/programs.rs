//! The command lines of the components of Kubernetes.

use super::site::KubernetesSite;
use crate::testbed::inventory::KubernetesBinaries;
use crate::testbed::program::Program;

/// The ports of the components.
#[derive(Debug, Clone, Copy)]
pub(in crate::testbed) struct KubernetesPorts {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) apiserver: u16,
    pub(super) controller_manager: u16,
    pub(super) scheduler: u16,
}

impl From<[u16; 5]> for KubernetesPorts {
    fn from([etcd, etcd_peer, apiserver, controller_manager, scheduler]: [u16; 5]) -> Self {
        Self { etcd, etcd_peer, apiserver, controller_manager, scheduler }
    }
}

pub(super) fn etcd(binaries: &KubernetesBinaries, site: &KubernetesSite, fsync: bool) -> Program {
    let clients = format!("http://127.0.0.1:{}", site.ports.etcd);
    let peers = format!("http://127.0.0.1:{}", site.ports.etcd_peer);
    let program = Program::new("etcd", &binaries.etcd)
        .flag("data-dir", site.path("etcd"))
        .flag("listen-client-urls", &clients)
        .flag("advertise-client-urls", &clients)
        .flag("listen-peer-urls", &peers)
        .flag("initial-advertise-peer-urls", &peers)
        .flag("initial-cluster", format!("default={peers}"));
    // The data is discarded, so that syncs are needed only to measure their cost.
    if fsync { program } else { program.args(["--unsafe-no-fsync"]) }
}

pub(super) fn apiserver(binaries: &KubernetesBinaries, site: &KubernetesSite) -> Program {
    let program = Program::new("kube-apiserver", &binaries.apiserver)
        .flag("etcd-servers", format!("http://127.0.0.1:{}", site.ports.etcd))
        .flag("service-account-issuer", "https://kubernetes.default.svc")
        .flag("service-account-key-file", site.path("sa.pub"))
        .flag("service-account-signing-key-file", site.path("sa.key"))
        .flag("service-cluster-ip-range", "10.96.0.0/16")
        .flag("token-auth-file", site.path("tokens.csv"))
        .flag("authorization-mode", "RBAC")
        // By default the API server requires a network address, and does not start on a machine without one.
        .flag("advertise-address", "127.0.0.1")
        .flag("endpoint-reconciler-type", "none")
        // Pods need no tokens, because no process runs in them.
        .flag("disable-admission-plugins", "ServiceAccount");
    serving(program, site, site.ports.apiserver)
}

pub(super) fn controller_manager(binaries: &KubernetesBinaries, site: &KubernetesSite) -> Program {
    let program = Program::new("kube-controller-manager", &binaries.controller_manager)
        .flag("kubeconfig", site.kubeconfig())
        .flag("service-account-private-key-file", site.path("sa.key"))
        .flag("leader-elect", "false");
    serving(program, site, site.ports.controller_manager)
}

pub(super) fn scheduler(binaries: &KubernetesBinaries, site: &KubernetesSite) -> Program {
    let program = Program::new("kube-scheduler", &binaries.scheduler)
        .flag("kubeconfig", site.kubeconfig())
        .flag("leader-elect", "false");
    serving(program, site, site.ports.scheduler)
}

pub(super) fn kwok(binaries: &KubernetesBinaries, site: &KubernetesSite) -> Program {
    Program::new("kwok", &binaries.kwok)
        .flag("kubeconfig", site.kubeconfig())
        .flag("manage-all-nodes", "true")
        // Without leases the nodes become NotReady after 40 seconds, and Deployments lose their pods.
        .flag("node-lease-duration-seconds", "40")
        // kwok ignores these pods, because a test simulates their kubelet.
        .flag("disregard-status-with-label-selector", "muster.test/driver=true")
        // Otherwise kwok would read the configuration of the user.
        .env("HOME", site.path("home"))
}

fn serving(program: Program, site: &KubernetesSite, port: u16) -> Program {
    program
        .flag("bind-address", "127.0.0.1")
        .flag("secure-port", port.to_string())
        .flag("tls-cert-file", site.path("server.crt"))
        .flag("tls-private-key-file", site.path("server.key"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    type Line = fn(&KubernetesBinaries, &KubernetesSite) -> Program;

    const SERVED: &str = "--tls-cert-file=/d/server.crt --tls-private-key-file=/d/server.key";

    fn words(line: Line) -> String {
        let binaries = KubernetesBinaries {
            etcd: "/bin/etcd".into(),
            apiserver: "/bin/kube-apiserver".into(),
            controller_manager: "/bin/kube-controller-manager".into(),
            scheduler: "/bin/kube-scheduler".into(),
            kwok: "/bin/kwok".into(),
        };
        let site = KubernetesSite::at("/d".into(), KubernetesPorts::from([1, 2, 3, 4, 5]));
        let command = line(&binaries, &site).command();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ").strip_prefix("--pdeathsig KILL -- ").expect("it dies with the testbed").to_owned()
    }

    fn etcd(binaries: &KubernetesBinaries, site: &KubernetesSite) -> Program {
        super::etcd(binaries, site, false)
    }

    fn etcd_with_fsync(binaries: &KubernetesBinaries, site: &KubernetesSite) -> Program {
        super::etcd(binaries, site, true)
    }

    #[rstest]
    #[case(
        etcd_with_fsync,
        "/bin/etcd --data-dir=/d/etcd --listen-client-urls=http://127.0.0.1:1 \
        --advertise-client-urls=http://127.0.0.1:1 --listen-peer-urls=http://127.0.0.1:2 \
        --initial-advertise-peer-urls=http://127.0.0.1:2 --initial-cluster=default=http://127.0.0.1:2"
    )]
    #[case(
        etcd,
        "/bin/etcd --data-dir=/d/etcd --listen-client-urls=http://127.0.0.1:1 \
        --advertise-client-urls=http://127.0.0.1:1 --listen-peer-urls=http://127.0.0.1:2 \
        --initial-advertise-peer-urls=http://127.0.0.1:2 --initial-cluster=default=http://127.0.0.1:2 \
        --unsafe-no-fsync"
    )]
    #[case(
        apiserver,
        "/bin/kube-apiserver --etcd-servers=http://127.0.0.1:1 \
        --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=/d/sa.pub \
        --service-account-signing-key-file=/d/sa.key --service-cluster-ip-range=10.96.0.0/16 \
        --token-auth-file=/d/tokens.csv --authorization-mode=RBAC --advertise-address=127.0.0.1 \
        --endpoint-reconciler-type=none --disable-admission-plugins=ServiceAccount \
        --bind-address=127.0.0.1 --secure-port=3 SERVED"
    )]
    #[case(
        controller_manager,
        "/bin/kube-controller-manager --kubeconfig=/d/kubeconfig \
        --service-account-private-key-file=/d/sa.key --leader-elect=false --bind-address=127.0.0.1 --secure-port=4 \
        SERVED"
    )]
    #[case(
        scheduler,
        "/bin/kube-scheduler --kubeconfig=/d/kubeconfig --leader-elect=false --bind-address=127.0.0.1 \
        --secure-port=5 SERVED"
    )]
    #[case(
        kwok,
        "/bin/kwok --kubeconfig=/d/kubeconfig --manage-all-nodes=true --node-lease-duration-seconds=40 \
        --disregard-status-with-label-selector=muster.test/driver=true"
    )]
    fn a_component_is_started_with(#[case] line: Line, #[case] expected: &str) {
        assert_eq!(words(line), expected.replace("SERVED", SERVED));
    }
}
