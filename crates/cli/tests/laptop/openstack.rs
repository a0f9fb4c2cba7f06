//! The clustering API by its real client, with real processes.

use crate::laptop::Laptop;

const ACCOUNTS: &str =
    "[[account]]\nname = 'demo'\npassword = 'plain:secret'\nproject = 'demo'\nroles = ['member']\n";

#[tokio::test]
async fn the_sdk_leads_a_dask_cluster_through_its_life() {
    let Some(clients) = muster_testkit::python("openstack").await else { return };
    let Some(dask) = muster_testkit::python("dask").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts.toml");
    std::fs::write(&accounts, ACCOUNTS).unwrap();
    let (auth, python) = (format!("accounts:{}", accounts.display()), dask.path().display().to_string());
    let laptop = Laptop::with(&[("MUSTER_PYTHON", &python), ("MUSTER_AUTH", &auth)]).await;
    let mut command = clients.command();
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let url = format!("{}/identity/v3", laptop.rest());
    let who = [
        ("OS_AUTH_URL", url.as_str()),
        ("OS_IDENTITY_API_VERSION", "3"),
        ("OS_USERNAME", "demo"),
        ("OS_PASSWORD", "secret"),
        ("OS_PROJECT_NAME", "demo"),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_PROJECT_DOMAIN_NAME", "Default"),
    ];
    command.envs(who).args(["-c", include_str!("openstack/life.py")]);
    let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(said, "made\nbound\nscaled\nhealed\ntold\nupdated\ngone\n");
}
