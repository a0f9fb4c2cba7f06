//! Commands that wait while their server restarts.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Harness, TIMEOUT, create, slow};

#[tokio::test]
async fn a_create_survives_a_killed_server() {
    let harness = Harness::new();
    let server = harness.serve(&[]).await;
    let properties = slow(2);
    let arguments = [create("fred", "2"), vec!["--profile-properties", &properties]].concat();
    let mut waiting = harness.spawn(&arguments);
    waiting.wait_for_line("fred: CREATING", TIMEOUT).await;
    server.kill();
    drop(server);
    waiting.wait_for_line("lost the connection to the server: reconnecting", TIMEOUT).await;
    let _server = harness.serve(&[]).await;
    waiting.wait_for_line("2/2", TIMEOUT).await;
    assert!(waiting.wait_for_exit(TIMEOUT).await.success(), "{}", waiting.tail());
    let actions = harness.muster(&["actions", "fred", "-o", "name"]).success().out;
    assert_eq!(actions.lines().count(), 1, "it was submitted twice: {actions}");
}

#[tokio::test]
async fn a_waiting_command_restarts_a_killed_server_but_not_a_stopped_one() {
    let harness = Harness::new();
    let properties = slow(2);
    let mut waiting =
        harness.spawn(&[create("fred", "1"), vec!["--profile-properties", &properties]].concat());
    waiting.wait_for_line("fred: CREATING", TIMEOUT).await;
    harness.kill_server();
    assert!(waiting.wait_for_exit(TIMEOUT).await.success(), "{}", waiting.tail());
    let properties = slow(3600);
    let more = vec!["--timeout", "4s", "--profile-properties", &properties];
    let mut waiting = harness.spawn(&[create("other", "1"), more].concat());
    waiting.wait_for_line("other: CREATING", TIMEOUT).await;
    harness.stop_server();
    waiting.wait_for_line("is not created yet after 4 s", TIMEOUT).await;
    assert_eq!(waiting.wait_for_exit(TIMEOUT).await.code(), Some(5));
    assert!(harness.announced().is_none(), "a stopped server was restarted");
}

#[tokio::test]
async fn a_wait_for_a_server_that_stays_down_ends_with_the_timeout() {
    let harness = Harness::new();
    let server = harness.serve(&[]).await;
    let properties = slow(3600);
    let more = vec!["--timeout", "4s", "--profile-properties", &properties];
    let mut waiting = harness.spawn(&[create("fred", "1"), more].concat());
    waiting.wait_for_line("fred: CREATING", TIMEOUT).await;
    server.kill();
    drop(server);
    waiting.wait_for_line("is not created yet after 4 s", TIMEOUT).await;
    assert_eq!(waiting.wait_for_exit(TIMEOUT).await.code(), Some(5));
}

#[tokio::test]
async fn a_watch_continues_with_the_next_server() {
    let harness = Harness::new();
    let server = harness.serve(&[]).await;
    harness.muster(&create("before", "1")).success();
    let watch = harness.spawn(&["get", "--watch"]);
    watch.wait_for_line("before", TIMEOUT).await;
    server.kill();
    drop(server);
    let _server = harness.serve(&[]).await;
    harness.muster(&create("after", "1")).success();
    watch.wait_for_line("after", TIMEOUT).await;
    let lines = watch.tail();
    assert_eq!(lines.matches("before").count(), 1, "the watch started again:\n{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_is_executed_once() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let server: SocketAddr = harness.announced().unwrap()["grpc"].as_str().unwrap().parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let proxy = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        lose_the_answer_to(b"cut-me", client, server).await;
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    harness.muster(&[create("cut-me", "1"), vec!["--server", &url]].concat()).success();
    let actions = harness.muster(&["actions", "cut-me", "-o", "name"]).success().out;
    assert_eq!(actions.lines().count(), 1, "it was submitted twice: {actions}");
    proxy.abort();
}

/// Forwards everything until a request with these bytes is answered; then closes the connection instead.
async fn lose_the_answer_to(marker: &[u8], mut client: TcpStream, server: SocketAddr) {
    let holds = |bytes: &[u8]| bytes.windows(marker.len()).any(|window| window == marker);
    let mut server = TcpStream::connect(server).await.expect("the server listens");
    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
    let mut marked = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let bytes = &asked[..read.expect("the command asks")];
                marked = marked || holds(bytes);
                server.write_all(bytes).await.expect("the server listens");
            }
            read = server.read(&mut answered) => {
                let bytes = &answered[..read.expect("the server answers")];
                // Window updates come first; the answer contains the name again.
                if marked && holds(bytes) {
                    return;
                }
                client.write_all(bytes).await.expect("the command listens");
            }
        }
    }
}
