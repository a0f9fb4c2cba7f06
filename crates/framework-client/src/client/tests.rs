mod server;

use muster_frameworks::Secret;
use rstest::rstest;

use super::*;
use server::Server;

/// Short, because the servers that these tests wait for never complete their response.
const SHORT: Duration = Duration::from_millis(50);

fn get(url: String) -> FrameworkRequest {
    FrameworkRequest { method: RequestMethod::Get, url, bearer: None }
}

fn client() -> FrameworkClient {
    FrameworkClient::new(HashMap::new())
}

#[tokio::test]
async fn a_request_carries_its_method_and_bearer_token() {
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let bearer = Some(Secret::new("abracadabra"));
    let request = FrameworkRequest { method: RequestMethod::Post, url: server.url("/retire"), bearer };
    assert_eq!(client().fetch(&request).await.unwrap(), b"ok");
    let sent = server.requests().remove(0).to_lowercase();
    assert!(sent.starts_with("post /retire http/1.1\r\n"), "{sent}");
    assert!(sent.contains("authorization: bearer abracadabra\r\n"), "{sent}");
    assert!(sent.contains("content-type: application/json\r\n"), "{sent}");
}

#[tokio::test]
async fn a_request_without_a_secret_carries_no_authorization() {
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(client().fetch(&get(server.url("/"))).await.unwrap(), b"");
    let sent = server.requests().remove(0).to_lowercase();
    assert!(!sent.contains("authorization"), "{sent}");
}

#[rstest]
#[case::before_the_status("")]
#[case::within_the_head("HTTP/1.1 200 OK\r\n")]
#[case::within_the_body("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")]
#[tokio::test]
async fn a_slow_response_times_out(#[case] response: &'static str) {
    let server = Server::start(response).await;
    let (client, request) = (client(), get(server.url("/slow")));
    let fetched = tokio::time::timeout(SHORT * 100, client.fetch_within(&request, SHORT)).await;
    let error = fetched.expect("the client gives up first").unwrap_err();
    assert!(matches!(error, FrameworkRequestError::Timeout { timeout: SHORT, .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("{}: no complete response within 50ms", server.url("/slow")));
}

#[rstest]
#[case::with_its_length(Some(RESPONSE_LIMIT + 1))]
#[case::without_its_length(None)]
#[tokio::test]
async fn a_response_larger_than_the_limit_is_refused(#[case] length: Option<usize>) {
    let server = Server::start(sized_response(length, RESPONSE_LIMIT + 1)).await;
    let error = client().fetch(&get(server.url("/"))).await.unwrap_err();
    assert!(matches!(error, FrameworkRequestError::TooLarge { limit: RESPONSE_LIMIT, .. }), "{error:?}");
}

#[tokio::test]
async fn a_response_as_large_as_the_limit_is_read() {
    let server = Server::start(sized_response(Some(RESPONSE_LIMIT), RESPONSE_LIMIT)).await;
    assert_eq!(client().fetch(&get(server.url("/"))).await.unwrap().len(), RESPONSE_LIMIT);
}

fn sized_response(length: Option<usize>, body: usize) -> Vec<u8> {
    let length = length.map(|length| format!("content-length: {length}\r\n"));
    let mut response = format!("HTTP/1.1 200 OK\r\n{}\r\n", length.unwrap_or_default()).into_bytes();
    response.resize(response.len() + body, b' ');
    response
}

#[rstest]
#[case("302 Found\r\nlocation: /elsewhere")]
#[case("404 Not Found")]
#[case("500 Internal Server Error")]
#[tokio::test]
async fn a_status_other_than_2xx_is_refused(#[case] status: &str) {
    let server = Server::start(format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nno")).await;
    let error = client().fetch(&get(server.url("/"))).await.unwrap_err();
    let status = status.lines().next().unwrap();
    assert_eq!(error.to_string(), format!("{}: {status}", server.url("/")));
    assert!(matches!(error, FrameworkRequestError::Status { .. }), "{error:?}");
    assert_eq!(server.requests().len(), 1, "a redirect is not followed");
}

#[tokio::test]
async fn configured_host_names_resolve_to_their_addresses() {
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    // No resolver knows a name in this domain (RFC 6761).
    let name = "head.project.svc.invalid";
    let configured = FrameworkClient::new(HashMap::from([(name.to_owned(), server.address().ip())]));
    let request = get(format!("http://{name}:{}/", server.address().port()));
    assert_eq!(configured.fetch(&request).await.unwrap(), b"ok");
}

#[tokio::test]
async fn other_host_names_resolve_as_the_system_does() {
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let configured = FrameworkClient::new(HashMap::from([("head".to_owned(), [192, 0, 2, 1].into())]));
    let request = get(format!("http://localhost:{}/", server.address().port()));
    assert_eq!(configured.fetch(&request).await.unwrap(), b"ok");
}

#[tokio::test]
async fn every_request_opens_its_own_connection() {
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let client = client();
    for _ in 0..3 {
        client.fetch(&get(server.url("/"))).await.unwrap();
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_failed_connection_is_reported_with_its_cause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = client().fetch(&get(url.clone())).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: Connection refused (os error 111)"));
}

#[tokio::test]
async fn an_address_that_is_no_url_is_reported() {
    let error = client().fetch(&get("/api/v1/workers".to_owned())).await.unwrap_err();
    assert_eq!(error.to_string(), "/api/v1/workers: relative URL without a base");
}
