//! The unmodified command line of OpenStack.

use muster_testkit::OpenStack;

use crate::server::{Kind, Server};

#[tokio::test]
async fn the_command_line_creates_shows_and_deletes_a_cluster() {
    let Some(clients) = muster_testkit::openstack().await else { return };
    let write = |folder: &std::path::Path| OpenStack::write_accounts(&folder.join("accounts.toml"));
    let arguments = ["--auth", "accounts:accounts.toml"];
    let mut server = Server::start_with(Kind::Sqlite, &arguments, write).await.expect("a server");
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("profile.yaml");
    std::fs::write(&spec, "{type: simulated.node, version: 1.0, properties: {flavor: small}}").unwrap();
    let base = server.base.clone();
    let openstack = async |arguments: &[&str]| {
        let arguments = [&["-m", "openstackclient.shell"], arguments].concat();
        let run = clients.run(&base, &arguments).await;
        let words = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{arguments:?}: {words}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let path = spec.to_string_lossy().into_owned();
    openstack(&["cluster", "profile", "create", "--spec-file", &path, "p"]).await;
    openstack(&["cluster", "create", "--profile", "p", "--desired-capacity", "2", "c"]).await;
    let token = openstack(&["token", "issue", "-f", "value", "-c", "id"]).await;
    server.token = Some(token.trim().to_owned());
    server.until("/clusters/c", "cluster", "ACTIVE").await;
    let members = openstack(&["cluster", "members", "list", "c", "-f", "value", "-c", "status"]).await;
    assert_eq!(members, "ACTIVE\nACTIVE\n");
    let shown = openstack(&["cluster", "show", "c", "-f", "value", "-c", "status"]).await;
    assert_eq!(shown, "ACTIVE\n");
    openstack(&["cluster", "delete", "--force", "c"]).await;
}
