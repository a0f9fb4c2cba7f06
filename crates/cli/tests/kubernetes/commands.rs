//! The commands of a laptop, unchanged.

use crate::site::{Site, said};

#[tokio::test]
async fn the_same_commands_lead_a_cluster_on_kubernetes_through_its_life() {
    let Some(site) = Site::open().await else { return };
    let server = site.server(&[]).await;
    let muster = |arguments: &[&str]| said(&site.muster(&server, arguments));
    let shown =
        muster(&["create", "fred", "--framework", "ray", "--provider", "kubernetes", "--workers", "3"]);
    assert!(shown.contains("ACTIVE") && shown.contains("3/3"), "{shown}");
    let namespace = site.namespace.name();
    let way_in = format!("kubectl -n {namespace} port-forward svc/fred-head-svc 8265");
    assert!(shown.contains(&way_in), "{shown}");
    assert_eq!(site.asked_for().await, [("fred".to_owned(), 3.into())]);

    assert!(muster(&["scale", "fred", "--workers", "1"]).contains("1/1"));
    let nodes = muster(&["nodes", "fred"]);
    assert!(nodes.lines().any(|line| line.contains(" head ") && line.contains("ACTIVE")), "{nodes}");
    muster(&["restart", "fred"]);
    let events = muster(&["events", "fred"]);
    assert!(events.contains("CreatedHeadPod") && events.contains("CLUSTER_RESIZE"), "{events}");
    assert!(muster(&["env", "fred"]).contains("RAY_AUTH_TOKEN="));
    muster(&["delete", "fred"]);
    assert_eq!(site.asked_for().await, []);
}

#[tokio::test]
async fn what_is_asked_for_nowhere_in_particular_goes_to_kubernetes() {
    let Some(site) = Site::open().await else { return };
    let server = site.server(&[]).await;
    let shown = said(&site.muster(&server, &["create", "fred", "--framework", "ray", "-o", "json"]));
    assert!(shown.contains(r#""provider": "kubernetes""#), "{shown}");
    let local = site.muster(&server, &["create", "here", "--framework", "spark", "--provider", "nowhere"]);
    let why = String::from_utf8_lossy(&local.stderr).into_owned();
    assert!(why.contains("there is no provider 'nowhere' here: use one of kubernetes, local"), "{why}");
    said(&site.muster(&server, &["delete", "fred"]));
}
