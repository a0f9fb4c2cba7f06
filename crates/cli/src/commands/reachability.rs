//! Warns if a cluster's address is unreachable from this machine.

use std::time::Duration;

use muster_core::address::host_and_port;
use muster_local::environments::PYTHON_VARIABLE;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::program::ClientEnvironment;
use crate::output::message;

/// Time limit of the connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Warns if the address among a cluster's variables is unreachable.
pub(super) async fn warn(cluster: &str, environment: &ClientEnvironment) {
    let Some(address) = environment.variables.get("MUSTER_ADDRESS") else { return };
    let Err(why) = check_reachable(address).await else { return };
    message!("warning: cluster '{cluster}' is unreachable from here: {why}");
    if !environment.variables.contains_key(PYTHON_VARIABLE) {
        let in_pod = std::env::var_os("POD_NAME").is_some_and(|name| !name.is_empty());
        message!("hint: {}", hint(in_pod));
    }
}

/// Returns the advice about a cluster on Kubernetes.
const fn hint(in_pod: bool) -> &'static str {
    if in_pod {
        "check that the cluster runs in the Kubernetes of this pod, and that no network policy keeps the two apart"
    } else {
        "clusters on Kubernetes are reachable from pods only: run this in a pod, or use --provider local"
    }
}

/// Connects to `host:port`, `scheme://host:port` or `scheme://host:port/path`.
async fn check_reachable(address: &str) -> Result<(), String> {
    let Some((target, _)) = host_and_port(address) else { return Ok(()) };
    match timeout(CONNECT_LIMIT, TcpStream::connect(target)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("{address}: {error}")),
        Err(_) => Err(format!("{address} has not answered within {} s", CONNECT_LIMIT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_not_advised_to_run_in_a_pod() {
        assert!(hint(false).contains("run this in a pod"));
        assert!(!hint(true).contains("in a pod"));
    }

    #[tokio::test]
    async fn a_closed_port_is_unreachable() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("tcp://{}", listener.local_addr().expect("an address"));
        assert_eq!(check_reachable(&address).await, Ok(()));
        drop(listener);
        let refused = check_reachable(&address).await.expect_err("nothing listens");
        assert!(refused.starts_with(&address), "{refused}");
    }
}
