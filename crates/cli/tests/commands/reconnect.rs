//! Servers that go away while a command waits.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::home::{Home, PATIENCE, create, slow};

#[tokio::test]
async fn a_create_outlives_the_server_that_took_it() {
    let home = Home::new();
    let server = home.serve(&[]).await;
    let properties = slow(2);
    let arguments = [create("fred", "2"), vec!["--profile-properties", &properties]].concat();
    let mut waiting = home.begin(&arguments);
    waiting.wait_for_line("fred: CREATING", PATIENCE).await;
    server.kill();
    drop(server);
    waiting.wait_for_line("the server went away: waiting for it to come back", PATIENCE).await;
    let _server = home.serve(&[]).await;
    waiting.wait_for_line("2/2", PATIENCE).await;
    assert!(waiting.wait_for_exit(PATIENCE).await.success(), "{}", waiting.tail());
    let actions = home.muster(&["actions", "fred", "-o", "name"]).done().out;
    assert_eq!(actions.lines().count(), 1, "it was asked for twice: {actions}");
}

#[tokio::test]
async fn a_server_that_commands_started_is_started_again_when_it_was_killed_and_not_when_it_was_stopped() {
    let home = Home::new();
    let properties = slow(2);
    let mut waiting = home.begin(&[create("fred", "1"), vec!["--profile-properties", &properties]].concat());
    waiting.wait_for_line("fred: CREATING", PATIENCE).await;
    home.kill_server();
    assert!(waiting.wait_for_exit(PATIENCE).await.success(), "{}", waiting.tail());
    let properties = slow(3600);
    let more = vec!["--timeout", "4s", "--profile-properties", &properties];
    let mut waiting = home.begin(&[create("other", "1"), more].concat());
    waiting.wait_for_line("other: CREATING", PATIENCE).await;
    home.stop_server();
    waiting.wait_for_line("is not there yet after 4 s", PATIENCE).await;
    assert_eq!(waiting.wait_for_exit(PATIENCE).await.code(), Some(5));
    assert!(home.announced().is_none(), "whoever stopped it meant it");
}

#[tokio::test]
async fn a_wait_for_a_server_that_does_not_come_back_ends_with_the_timeout() {
    let home = Home::new();
    let server = home.serve(&[]).await;
    let properties = slow(3600);
    let more = vec!["--timeout", "4s", "--profile-properties", &properties];
    let mut waiting = home.begin(&[create("fred", "1"), more].concat());
    waiting.wait_for_line("fred: CREATING", PATIENCE).await;
    server.kill();
    drop(server);
    waiting.wait_for_line("is not there yet after 4 s", PATIENCE).await;
    assert_eq!(waiting.wait_for_exit(PATIENCE).await.code(), Some(5));
}

#[tokio::test]
async fn a_watch_goes_on_with_the_next_server() {
    let home = Home::new();
    let server = home.serve(&[]).await;
    home.muster(&create("before", "1")).done();
    let watch = home.begin(&["get", "--watch"]);
    watch.wait_for_line("before", PATIENCE).await;
    server.kill();
    drop(server);
    let _server = home.serve(&[]).await;
    home.muster(&create("after", "1")).done();
    watch.wait_for_line("after", PATIENCE).await;
    let lines = watch.tail();
    assert_eq!(lines.matches("before").count(), 1, "it began anew:\n{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_was_lost_is_done_once() {
    let home = Home::new();
    home.muster(&["whoami"]).done();
    let server: SocketAddr = home.announced().unwrap()["grpc"].as_str().unwrap().parse().unwrap();
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
    home.muster(&[create("cut-me", "1"), vec!["--server", &url]].concat()).done();
    let actions = home.muster(&["actions", "cut-me", "-o", "name"]).done().out;
    assert_eq!(actions.lines().count(), 1, "it was asked for twice: {actions}");
    proxy.abort();
}

/// Passes everything on, until a request that holds these bytes is answered: then hangs up instead.
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
                // Window updates and the like come first; the answer has the name again.
                if marked && holds(bytes) {
                    return;
                }
                client.write_all(bytes).await.expect("the command listens");
            }
        }
    }
}
