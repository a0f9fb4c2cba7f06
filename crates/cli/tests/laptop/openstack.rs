//! The clustering API with its real client and real processes.

use muster_testkit::OpenStack;

use crate::harness::Harness;

#[tokio::test]
async fn the_sdk_manages_a_dask_cluster() {
    let Some(clients) = muster_testkit::openstack().await else { return };
    let Some(dask) = muster_testkit::python("dask").await else { return };
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts.toml");
    OpenStack::write_accounts(&accounts);
    let (auth, python) = (format!("accounts:{}", accounts.display()), dask.path().display().to_string());
    let harness = Harness::with(&[("MUSTER_PYTHON", &python), ("MUSTER_AUTH", &auth)]).await;
    let run = clients.run(harness.rest(), &["-c", include_str!("openstack/life.py")]).await;
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(printed, "made\nbound\nscaled\nhealed\ntriggered\nupdated\ngone\n");
}
