//! The unmodified clients of OpenStack, with an account of a server.

use std::path::Path;
use std::process::{Command, Output};

use crate::python::{Python, python};

/// The file of accounts with the one that the clients use.
const ACCOUNTS: &str =
    "[[account]]\nname = 'demo'\npassword = 'plain:secret'\nproject = 'demo'\nroles = ['member']\n";

/// The clients of OpenStack.
#[derive(Debug, Clone)]
pub struct OpenStack {
    python: Python,
}

/// The clients of OpenStack, or `None` if the test is skipped.
pub async fn openstack() -> Option<OpenStack> {
    Some(OpenStack { python: python("openstack").await? })
}

impl OpenStack {
    /// Writes the accounts of a server that the clients can log in to.
    pub fn write_accounts(path: &Path) {
        std::fs::write(path, ACCOUNTS).expect("a file of accounts");
    }

    /// Runs Python with the clients installed and a clean environment, so that only the settings for this server apply.
    pub async fn run(&self, server: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(&format!("{server}/identity/v3"));
        command.args(arguments);
        tokio::task::spawn_blocking(move || command.output().expect("Python runs"))
            .await
            .expect("it runs to its end")
    }

    fn command(&self, url: &str) -> Command {
        let mut command = self.python.command();
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([
            ("OS_AUTH_URL", url),
            ("OS_IDENTITY_API_VERSION", "3"),
            ("OS_USERNAME", "demo"),
            ("OS_PASSWORD", "secret"),
            ("OS_PROJECT_NAME", "demo"),
            ("OS_USER_DOMAIN_NAME", "Default"),
            ("OS_PROJECT_DOMAIN_NAME", "Default"),
        ]);
        command
    }
}
