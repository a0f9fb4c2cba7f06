//! The clustering API by its real client, with real processes.

use muster_testkit::OpenStack;

use crate::laptop::Laptop;

#[tokio::test]
async fn the_sdk_leads_a_dask_cluster_through_its_life() {
    let Some(clients) = muster_testkit::openstack().await else { return };
    let Some(dask) = muster_testkit::python("dask").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts.toml");
    OpenStack::write_accounts(&accounts);
    let (auth, python) = (format!("accounts:{}", accounts.display()), dask.path().display().to_string());
    let laptop = Laptop::with(&[("MUSTER_PYTHON", &python), ("MUSTER_AUTH", &auth)]).await;
    let run = clients.run(laptop.rest(), &["-c", include_str!("openstack/life.py")]).await;
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(said, "made\nbound\nscaled\nhealed\ntold\nupdated\ngone\n");
}
