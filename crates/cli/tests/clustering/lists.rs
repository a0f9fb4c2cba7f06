//! Lists: filters, order and pages, the same for every resource.

use muster_testkit::database_test;
use rstest::rstest;
use serde_json::{Value, json};

use crate::server::Server;

fn names(body: &Value, key: &str) -> Vec<String> {
    let items = body[key].as_array().expect("a list");
    items.iter().filter_map(|item| item["name"].as_str()).map(str::to_owned).collect()
}

#[database_test(Server::start)]
async fn clusters_are_sorted_filtered_and_paged(server: Server) {
    let profile = server.profile("p").await;
    for name in ["b", "a", "c"] {
        server.cluster(name, json!({"profile_id": profile})).await;
    }
    let list = async |query: &str| server.get(&format!("/clusters{query}")).await.body;
    assert_eq!(names(&list("").await, "clusters"), ["b", "a", "c"], "as they came");
    assert_eq!(names(&list("?sort=name").await, "clusters"), ["a", "b", "c"]);
    assert_eq!(names(&list("?sort=status,name:desc").await, "clusters"), ["c", "b", "a"]);
    assert_eq!(names(&list("?name=a&name=c&sort=name").await, "clusters"), ["a", "c"]);
    assert_eq!(names(&list("?status=ERROR").await, "clusters"), Vec::<String>::new());
    assert_eq!(names(&list("?limit=0").await, "clusters"), Vec::<String>::new());
    let mut paged = Vec::new();
    let mut marker = String::new();
    loop {
        let page = list(&format!("?sort=name&limit=1{marker}")).await;
        let Some(last) = page["clusters"].as_array().unwrap().last() else { break };
        paged.extend(names(&page, "clusters"));
        marker = format!("&marker={}", last["id"].as_str().unwrap());
        assert!(paged.len() <= 3, "the pages do not end: {paged:?}");
    }
    assert_eq!(paged, ["a", "b", "c"]);
    let unknown = list("?marker=0190f3a2-7b1c-4d4e-8f00-1234567890ab&limit=1").await;
    assert_eq!(names(&unknown, "clusters"), ["b"], "a marker that is nowhere says nothing");
}

#[rstest]
#[case("/clusters?foo=1", "Invalid parameter 'foo'")]
#[case("/nodes?foo=1", "Invalid parameter foo")]
#[case("/profiles?foo=1", "Invalid parameter foo")]
#[case("/clusters?limit=x", "The value for limit must be an integer: 'x'.")]
#[case("/clusters?marker=abc", "The value for marker is not a valid UUID: 'abc'.")]
#[case("/clusters?sort=foo", "Unsupported sort key 'foo' for 'sort'.")]
#[case("/clusters?sort=name:up", "Unsupported sort dir 'up' for 'sort'.")]
#[case("/clusters?status=FOO", "Field value FOO is invalid")]
#[case("/nodes?status=FOO", "Field value FOO is invalid")]
#[case("/actions?action=FOO", "Field value FOO is invalid")]
#[case("/events?level=FOO", "Field value FOO is invalid")]
#[case("/events?action=FOO", "Field value FOO is invalid")]
#[case("/events?action=NodeLost", "Field value NodeLost is invalid")]
#[case("/events?action=['CLUSTER_CREATE']", "Field value ['CLUSTER_CREATE'] is invalid")]
#[case("/receivers?type=FOO", "Field value FOO is invalid")]
#[case("/clusters?global_project=yes", "Invalid value 'yes' specified for 'global_project'")]
#[case("/nodes?cluster_id=x", "Cannot find the given cluster: x.")]
#[tokio::test]
async fn bad_queries_are_refused(#[case] path: &str, #[case] message: &str) {
    let server = Server::sqlite().await;
    let refused = server.get(path).await;
    assert_eq!((refused.status, refused.message()), (400, message));
}

#[tokio::test]
async fn events_have_their_object_and_action() {
    let server = Server::sqlite().await;
    let cluster = server.cluster("c", json!({"desired_capacity": 1})).await;
    let id = cluster["id"].as_str().unwrap();
    let events = server.get(&format!("/events?oid={id}&action=CLUSTER_CREATE&level=INFO")).await.body;
    let phases: Vec<&str> =
        events["events"].as_array().unwrap().iter().filter_map(|event| event["status"].as_str()).collect();
    assert_eq!(phases, ["start", "end"]);
    let first = &events["events"][0];
    assert_eq!(
        (&first["otype"], &first["oname"], &first["cluster_id"]),
        (&"CLUSTER".into(), &"c".into(), &id.into())
    );
    assert_eq!(first["meta_data"]["door"], "clustering");
    let one = server.get(&format!("/events/{}", first["id"].as_str().unwrap())).await;
    assert_eq!(one.body["event"], *first);
    let short = &first["id"].as_str().unwrap()[..8];
    assert_eq!(server.get(&format!("/events/{short}")).await.body["event"], *first, "eight characters do");
    let all = server.get(&format!("/events?cluster_id={id}")).await.body["events"].clone();
    assert_eq!(server.get("/events?cluster_id=c").await.body["events"], all, "its name does, too");
    assert_eq!(server.get("/events?cluster_id=unknown").await.body["events"], json!([]));
    let actions = server.get(&format!("/actions?cluster_id={}", &id[..8])).await.body["actions"].clone();
    assert!(
        actions.as_array().is_some_and(|actions| actions.len() == 2),
        "a creation and its part: {actions}"
    );
}
