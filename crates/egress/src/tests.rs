use std::sync::{Arc, Mutex};

use muster_core::policy::health::PollUrl;
use muster_engine::ports::probe::{PollResult, Probe as _};
use muster_engine::ports::webhook::Webhooks as _;
use rstest::rstest;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Answers every request with the same, and remembers the first line of each.
struct Listener {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    async fn start(answer: impl Fn(u16) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (answer, asked) = (answer(port), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                let line = String::from_utf8_lossy(&request[..read]).lines().next().map(str::to_owned);
                kept.lock().expect("not poisoned").extend(line);
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

/// Open to 127.0.0.1, and to nothing else of this machine.
fn egress() -> Egress {
    drop(rustls::crypto::ring::default_provider().install_default());
    let here = ["127.0.0.1".parse().expect("a network")];
    Egress::new(Rule::new(&here, &[], false)).expect("a way out")
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
async fn a_node_is_well_that_answers_so(
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
    assert_eq!(listener.asked(), ["GET /health HTTP/1.1"]);
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let polled = egress().poll(&url, &options("")).await;
    assert!(matches!(polled, PollResult::Unreachable(_)), "{polled:?}");
}

#[tokio::test]
async fn a_question_is_sent_on_but_not_where_the_rule_forbids_it() {
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
    assert_eq!(there.asked(), ["GET /there HTTP/1.1"]);
    assert_eq!(poll(&literal).await, PollResult::NotAllowed);
    assert_eq!(there.asked().len(), 1, "it went where it may not");
    assert!(matches!(poll(&around).await, PollResult::Unreachable(_)), "it goes round for ever");
}

#[tokio::test]
async fn a_name_is_refused_when_it_is_connected_to() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let listener = Listener::start(|_| answer("200 OK", "", "")).await;
    let strict = Egress::new(Rule::new(&[], &[], false)).unwrap();
    let url = format!("http://localhost:{}/secret", listener.port);
    assert_eq!(strict.poll(&url, &options("")).await, PollResult::NotAllowed);
    let refused = strict.post(&url, &json!({})).await.unwrap_err();
    assert!(refused.starts_with("this server does not connect to localhost ("), "{refused}");
    assert_eq!(listener.asked(), [""; 0]);
}

#[rstest]
#[case("204 No Content", "", None)]
#[case(
    "500 Internal Server Error",
    "",
    Some("answered 500 Internal Server Error: a status of 2xx is expected")
)]
#[case(
    "307 Temporary Redirect",
    "location: /elsewhere\r\n",
    Some("answered 307 Temporary Redirect: a status of 2xx is expected")
)]
#[tokio::test]
async fn a_message_has_arrived_when_that_is_said(
    #[case] status: &str,
    #[case] headers: &str,
    #[case] why: Option<&str>,
) {
    let listener = Listener::start(|_| answer(status, headers, "")).await;
    let place = format!("http://127.0.0.1:{}", listener.port);
    let told = egress().post(&format!("{place}/hook?token=secret"), &json!({"a": 1})).await;
    assert_eq!(told.err(), why.map(|why| format!("{place} {why}")));
    assert_eq!(listener.asked(), ["POST /hook?token=secret HTTP/1.1"]);
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let refused = egress().check_poll("http://example.org/", &options("(")).unwrap_err();
    assert!(refused.starts_with("'poll_url_healthy_response' is '(', and that is no pattern: "), "{refused}");
}
