//! The interactive shell of a framework.

use muster_core::cluster::Framework;

/// An interactive program that uses a cluster. Environment variables of the cluster contain its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientShell {
    /// An interactive Python that first executes this statement.
    Python(&'static str),
    /// A program in the folder of the framework's Python.
    Program(&'static str),
}

/// Returns the shell of a framework, connected to the cluster; `None` for a framework that this version does not know.
pub const fn client_shell(framework: Framework) -> Option<ClientShell> {
    Some(match framework {
        Framework::Dask => {
            ClientShell::Python("from dask.distributed import Client; client = Client(); print(client)")
        }
        Framework::Ray => ClientShell::Python("import ray; ray.init()"),
        Framework::Spark => ClientShell::Program("pyspark"),
        Framework::Unknown(_) => return None,
    })
}
