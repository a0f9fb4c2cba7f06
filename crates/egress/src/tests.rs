use std::sync::{Arc, Mutex};

use muster_core::policy::health::PollUrl;
use muster_engine::ports::probe::{PollResult, Probe as _};
use muster_engine::ports::webhook::Webhooks as _;
use rstest::rstest;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A server that sends the same response to every request, and records the first line of each.
struct Listener {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    async fn start(answer: impl Fn(u16) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (response, requests) = (answer(port), Arc::new(Mutex::new(Vec::new())));
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                let line = String::from_utf8_lossy(&request[..read]).lines().next().map(str::to_owned);
                recorded.lock().expect("not poisoned").extend(line);
                drop(stream.write_all(response.as_bytes()).await);
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

/// A client that may connect to 127.0.0.1, and to no other address of this machine.
fn egress() -> Egress {
    drop(rustls::crypto::ring::default_provider().install_default());
    let here = ["127.0.0.1".parse().expect("a network")];
    Egress::new(EgressRule::new(&here, &[], false)).expect("clients")
}

fn options(pattern: &str) -> PollUrl {
    serde_json::from_value(json!({
        "poll_url": "", "poll_url_ssl_verify": true, "poll_url_conn_error_as_unhealthy": true,
        "poll_url_healthy_response": pattern, "poll_url_retry_limit": 1, "poll_url_retry_interval": 100,
    }))
    .expect("options")
}

#[rstest]
#[case("200 OK", "all is well", "well", true)]
#[case("200 OK", "all is well", "", true)]
#[case("200 OK", "all is lost", "well", false)]
#[case("503 Service Unavailable", "all is well", "well", false)]
#[tokio::test]
async fn a_node_is_healthy_if_status_and_body_match(
    #[case] status: &str,
    #[case] body: &str,
    #[case] pattern: &str,
    #[case] well: bool,
) {
    let listener = Listener::start(|_| answer(status, "", body)).await;
    let url = format!("http://127.0.0.1:{}/health", listener.port);
    let polled = egress().poll(&url, &options(pattern)).await;
    assert_eq!(polled == PollResult::Healthy, well, "{polled:?}");
    assert!(well || matches!(polled, PollResult::Unhealthy(_)), "{polled:?}");
    assert_eq!(listener.requests(), ["GET /health HTTP/1.1"]);
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let polled = egress().poll(&url, &options("")).await;
    assert!(matches!(polled, PollResult::Unreachable(_)), "{polled:?}");
}

#[tokio::test]
async fn a_redirect_is_followed_unless_the_rule_forbids_its_target() {
    let there = Listener::start(|_| answer("200 OK", "", "well")).await;
    let to =
        |place: String| move |_: u16| answer("302 Found", &format!("location: http://{place}/there\r\n"), "");
    let open = Listener::start(to(format!("127.0.0.1:{}", there.port))).await;
    let literal = Listener::start(to(format!("127.0.0.2:{}", there.port))).await;
    let around =
        Listener::start(|port| answer("302 Found", &format!("location: http://127.0.0.1:{port}/\r\n"), ""))
            .await;
    let egress = egress();
    let poll = async |listener: &Listener| {
        egress.poll(&format!("http://127.0.0.1:{}/", listener.port), &options("well")).await
    };
    assert_eq!(poll(&open).await, PollResult::Healthy);
    assert_eq!(there.requests(), ["GET /there HTTP/1.1"]);
    assert_eq!(poll(&literal).await, PollResult::NotAllowed);
    assert_eq!(there.requests().len(), 1, "a forbidden redirect was followed");
    assert!(matches!(poll(&around).await, PollResult::Unreachable(_)), "redirects in a circle end");
}

#[tokio::test]
async fn a_name_is_refused_by_its_resolved_address() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let listener = Listener::start(|_| answer("200 OK", "", "")).await;
    let strict = Egress::new(EgressRule::new(&[], &[], false)).unwrap();
    let url = format!("http://localhost:{}/secret", listener.port);
    assert_eq!(strict.poll(&url, &options("")).await, PollResult::NotAllowed);
    let refused = strict.post(&url, &json!({})).await.unwrap_err();
    assert!(refused.starts_with("this server does not connect to localhost ("), "{refused}");
    assert_eq!(listener.requests(), [""; 0]);
}

#[rstest]
#[case("204 No Content", "", None)]
#[case(
    "500 Internal Server Error",
    "",
    Some("responded with 500 Internal Server Error: a status of 2xx is expected")
)]
#[case(
    "307 Temporary Redirect",
    "location: /elsewhere\r\n",
    Some("responded with 307 Temporary Redirect: a status of 2xx is expected")
)]
#[tokio::test]
async fn a_message_is_delivered_if_the_status_is_2xx(
    #[case] status: &str,
    #[case] headers: &str,
    #[case] why: Option<&str>,
) {
    let listener = Listener::start(|_| answer(status, headers, "")).await;
    let place = format!("http://127.0.0.1:{}", listener.port);
    let sent = egress().post(&format!("{place}/hook?token=secret"), &json!({"a": 1})).await;
    assert_eq!(sent.err(), why.map(|why| format!("{place} {why}")));
    assert_eq!(listener.requests(), ["POST /hook?token=secret HTTP/1.1"]);
}

#[test]
fn an_invalid_pattern_is_refused() {
    let refused = egress().check_poll("http://example.org/", &options("(")).unwrap_err();
    assert!(
        refused.starts_with("'poll_url_healthy_response' is '(': must be a regular expression: "),
        "{refused}"
    );
}
