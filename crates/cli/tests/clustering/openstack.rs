//! The command line of OpenStack, unchanged.

use crate::service::{Database, Service};

const ACCOUNTS: &str =
    "[[account]]\nname = 'demo'\npassword = 'plain:secret'\nproject = 'demo'\nroles = ['member']\n";

#[tokio::test]
async fn the_command_line_makes_shows_and_removes_a_cluster() {
    let Some(clients) = muster_testkit::python("openstack").await else { return };
    let write = |folder: &std::path::Path| {
        std::fs::write(folder.join("accounts.toml"), ACCOUNTS).expect("a file");
    };
    let arguments = ["--auth", "accounts:accounts.toml"];
    let mut service = Service::start_with(Database::Sqlite, &arguments, write).await.expect("a server");
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("profile.yaml");
    std::fs::write(&spec, "{type: simulated.node, version: 1.0, properties: {flavor: small}}").unwrap();
    let url = format!("{}/identity/v3", service.base);
    let openstack = async |arguments: &[&str]| {
        let mut command = clients.command();
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let who = [
            ("OS_AUTH_URL", url.as_str()),
            ("OS_IDENTITY_API_VERSION", "3"),
            ("OS_USERNAME", "demo"),
            ("OS_PASSWORD", "secret"),
            ("OS_PROJECT_NAME", "demo"),
            ("OS_USER_DOMAIN_NAME", "Default"),
            ("OS_PROJECT_DOMAIN_NAME", "Default"),
        ];
        command.envs(who).args(["-m", "openstackclient.shell"]).args(arguments);
        let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let words = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{arguments:?}: {words}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let path = spec.to_string_lossy().into_owned();
    openstack(&["cluster", "profile", "create", "--spec-file", &path, "p"]).await;
    openstack(&["cluster", "create", "--profile", "p", "--desired-capacity", "2", "c"]).await;
    let token = openstack(&["token", "issue", "-f", "value", "-c", "id"]).await;
    service.token = Some(token.trim().to_owned());
    service.until("/clusters/c", "cluster", "ACTIVE").await;
    let members = openstack(&["cluster", "members", "list", "c", "-f", "value", "-c", "status"]).await;
    assert_eq!(members, "ACTIVE\nACTIVE\n");
    let shown = openstack(&["cluster", "show", "c", "-f", "value", "-c", "status"]).await;
    assert_eq!(shown, "ACTIVE\n");
    openstack(&["cluster", "delete", "--force", "c"]).await;
}
