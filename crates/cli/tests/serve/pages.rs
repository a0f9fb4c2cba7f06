//! Lists: pages, order, filters, history.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::{Server, cluster};

fn names(page: &Value) -> Vec<&str> {
    let clusters = page["clusters"].as_array().expect("a list has its array");
    clusters.iter().map(|cluster| cluster["name"].as_str().expect("a name")).collect()
}

async fn five(server: &Server) {
    for name in ["delta", "alpha", "echo", "charlie", "bravo"] {
        server.create(name, 0).await;
    }
}

#[tokio::test]
async fn pages_have_no_gaps_and_no_duplicates() {
    let server = Server::dev().await;
    five(&server).await;
    let mut all = Vec::new();
    let mut token = String::new();
    for number in 1..=3 {
        let page = server.get(&format!("/clusters?page_size=2&sort_by=name&page_token={token}")).await;
        all.extend(names(&page).iter().map(ToString::to_string));
        // Creations and deletions among the listed clusters do not affect the other pages.
        match number {
            1 => drop(server.create("aaron", 0).await),
            2 => {
                for name in ["aaron", "alpha"] {
                    let path = format!("/namespaces/demo/clusters/{name}?wait_for=reached");
                    let gone = server.call(Method::DELETE, &path, None).await;
                    assert_eq!(gone.status().as_u16(), 200, "{name}");
                }
            }
            _ => {}
        }
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(all, ["alpha", "bravo", "charlie", "delta", "echo"]);
    assert_eq!(token, "");
}

#[tokio::test]
async fn lists_are_ordered_and_filtered() {
    let server = Server::dev().await;
    five(&server).await;
    let mut labelled = cluster("foxtrot", 0);
    labelled["labels"] = json!({"team": "blue"});
    server.post("/namespaces/other/clusters?wait_for=reached", labelled).await;
    assert_eq!(names(&server.get("/clusters?sort_by=-name&page_size=2").await), ["foxtrot", "echo"]);
    assert_eq!(names(&server.get("/clusters").await)[0], "delta", "oldest first");
    assert_eq!(names(&server.get("/clusters?label=team%3Dblue").await), ["foxtrot"]);
    assert_eq!(names(&server.get("/clusters?name_prefix=ch").await), ["charlie"]);
    assert_eq!(names(&server.get("/namespaces/other/clusters").await), ["foxtrot"]);
    assert_eq!(names(&server.get("/namespaces/nowhere/clusters").await), Vec::<&str>::new());
    assert_eq!(server.get("/clusters?page_size=1&with_total=true").await["totalSize"], 6);
    server.call(Method::DELETE, "/namespaces/demo/clusters/alpha?wait_for=reached", None).await;
    assert_eq!(names(&server.get("/clusters?deleted=only").await), ["alpha"]);
}

#[tokio::test]
async fn a_page_token_is_valid_for_its_own_list_only() {
    let server = Server::dev().await;
    five(&server).await;
    let page = server.get("/clusters?page_size=2&sort_by=name").await;
    let token = page["nextPageToken"].as_str().expect("a token");
    let (status, _, printed) =
        server.refusal(Method::GET, &format!("/clusters?page_size=2&page_token={token}"), None).await;
    assert_eq!(status, 400, "{printed}");
    let server = server.kill_and_start_again().await;
    let next = server.get(&format!("/clusters?page_size=2&sort_by=name&page_token={token}")).await;
    assert_eq!(names(&next), ["charlie", "delta"], "a token survives a restart");
}

#[tokio::test]
async fn nodes_events_and_actions_are_filtered_and_counted() {
    let server = Server::dev().await;
    let mut body = cluster("fred", 2);
    let groups = body["cluster_spec"]["worker_group_spec"].as_array_mut().unwrap();
    groups.push(json!({"group_name": "large", "replicas": 1}));
    server.post("/namespaces/demo/clusters?wait_for=reached", body).await;
    let count = async |path: &str, key: &str| server.get(path).await[key].as_array().map(Vec::len);
    let fred = "/namespaces/demo/clusters/fred";
    assert_eq!(count(&format!("{fred}/nodes?group_name=large"), "nodes").await, Some(1));
    assert_eq!(count(&format!("{fred}/nodes?role=head"), "nodes").await, Some(0));
    assert_eq!(server.get(&format!("{fred}/nodes?page_size=1&with_total=true")).await["totalSize"], 3);
    assert_eq!(count("/actions?action=NODE_CREATE&user=dev", "actions").await, Some(3));
    assert_eq!(count("/actions?user=unknown", "actions").await, Some(0));
    let action =
        server.get(&format!("{fred}/actions?action=CLUSTER_CREATE")).await["actions"][0]["id"].clone();
    let events = format!("{fred}/events?action_id={}", action.as_str().unwrap());
    assert_eq!(count(&events, "events").await, Some(2));
}

#[tokio::test]
async fn the_total_is_on_the_last_page_and_on_request() {
    let server = Server::dev().await;
    five(&server).await;
    let mut totals = Vec::new();
    let mut token = String::new();
    loop {
        let page = server.get(&format!("/clusters?page_size=2&page_token={token}")).await;
        totals.push(page["totalSize"].as_i64());
        assert!(totals.len() <= 3, "the pages do not end: {totals:?}");
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        let counted = server.get(&format!("/clusters?page_size=2&page_token={token}&with_total=true")).await;
        assert_eq!(counted["totalSize"], 5, "a token is good whether or not all are counted");
    }
    assert_eq!(totals, [None, None, Some(5)]);
}

#[tokio::test]
async fn an_edited_token_is_refused() {
    let server = Server::dev().await;
    five(&server).await;
    let page = server.get("/clusters?page_size=2").await;
    let token = page["nextPageToken"].as_str().expect("a token");
    let (front, back) = token.split_at(token.len() / 2);
    for edited in [front.to_owned(), format!("{front}A{back}"), token.to_lowercase(), "e30".to_owned()] {
        let path = format!("/clusters?page_size=2&page_token={edited}");
        let (status, word, printed) = server.refusal(Method::GET, &path, None).await;
        assert_eq!((status, word.as_str()), (400, "InvalidArgument"), "{printed}");
        assert!(printed.contains("does not belong to this list: omit it"), "{printed}");
    }
}
