//! Failed starts say why and have the right exit code; data folders are private.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use muster_testkit::{Process, eventually};
use rstest::rstest;

use crate::server::{Server, TIMEOUT, spawn};

fn serve(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(["serve", "--grpc-listen", "127.0.0.1:0", "--data-dir"]).arg(folder).args(arguments);
    let Output { status, stderr, .. } = command.envs(variables.iter().copied()).output().expect("it runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[rstest]
#[case::no_address(&["--listen", "here"], "invalid value 'here'")]
#[case::no_such_flag(&["--lisen", "127.0.0.1:1"], "--lisen")]
#[case::contradiction(&["--dev", "--listen", "0.0.0.0:1"], "0.0.0.0:1")]
#[case::no_such_scheme(&["--auth", "magic"], "auth is 'magic': must be local, none, tokens:FILE, accounts:FILE, kubernetes or domino")]
#[case::no_tokens(&["--auth", "tokens:missing.toml"], "missing.toml")]
#[case::no_network(&["--egress-allow", "10.0.0.0/33"], "'10.0.0.0/33' is not a network")]
#[case::no_history(&["--retention-days", "0"], "retention_days is 0")]
#[case::no_time(&["--node-start-seconds", "0"], "node_start_seconds is 0")]
#[case::no_hands(&["--parallel-actions", "0"], "parallel_actions is 0")]
#[case::no_filter(&["--log", "a=b=c"], "log is 'a=b=c'")]
#[case::no_postgres(&["--database-url", "mysql://u:secret@h/d"], "does not begin with postgres://")]
#[case::no_file(&["--config", "missing.toml"], "cannot read missing.toml")]
#[case::no_certificate(&["--tls-cert", "missing.crt", "--tls-key", "missing.key"], "cannot read the certificate missing.crt")]
fn bad_settings_are_named_before_anything_starts(#[case] arguments: &[&str], #[case] words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (code, printed) = serve(folder.path(), arguments, &[]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains(words), "{printed}");
    assert!(!printed.contains("serving") && !printed.contains("secret"), "{printed}");
}

#[rstest]
#[case::unknown_key("lisen = \"127.0.0.1:1\"", "lisen")]
#[case::no_toml("listen", "is not a valid configuration file")]
fn an_invalid_file_is_named_with_the_reason(#[case] text: &str, #[case] words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("muster.toml");
    std::fs::write(&file, text).unwrap();
    let (code, printed) = serve(&folder.path().join("data"), &["--config", file.to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains(words) && printed.contains("muster.toml"), "{printed}");
}

#[rstest]
#[case::in_the_file(&["--config"], &[("LOG_LEVEL", "20")])]
#[case::by_a_variable(&[], &[("LOG_LEVEL", "20"), ("MUSTER_LOG", "info")])]
fn a_log_filter_that_is_given_as_its_default_takes_precedence_over_the_scalers(
    #[case] flags: &[&str],
    #[case] variables: &[(&str, &str)],
) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("muster.toml");
    std::fs::write(&file, "log = 'info'").unwrap();
    // The server fails at its last check, so that it ends.
    let mut arguments = vec!["--dev", "--listen", "127.0.0.1:0", "--auth", "tokens:missing.toml"];
    for flag in flags {
        arguments.extend([*flag, file.to_str().unwrap()]);
    }
    let variables: Vec<_> =
        variables.iter().copied().chain([("DOMINO_NUCLEUS_URI", "http://domino")]).collect();
    let (code, printed) = serve(&folder.path().join("data"), &arguments, &variables);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("missing.toml") && !printed.contains("LOG_LEVEL"), "{printed}");
}

#[rstest]
#[case::of_the_scaler(&[("DOMINO_NUCLEUS_URI", "http://domino")], "error: LOG_LEVEL is '20': must be a level")]
#[case::of_another_program(&[], "LOG_LEVEL is '20': must be a level such as info; set MUSTER_LOG, which takes precedence, or unset it; it is ignored")]
fn a_foreign_log_level_prevents_no_start(#[case] more: &[(&str, &str)], #[case] words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--dev", "--listen", "127.0.0.1:0", "--auth", "tokens:missing.toml"];
    let variables: Vec<_> = more.iter().copied().chain([("LOG_LEVEL", "20")]).collect();
    let (code, printed) = serve(&folder.path().join("data"), &arguments, &variables);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains(words), "{printed}");
    assert_eq!(
        printed.contains("missing.toml"),
        more.is_empty(),
        "only a foreign level is ignored: {printed}"
    );
}

#[test]
fn a_certificate_of_the_kubeconfig_that_cannot_be_used_is_not_reported_as_an_outage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let text = "apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {client-certificate-data: bm9uZQ==, client-key-data: bm9uZQ==}}]
";
    std::fs::write(&file, text).unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--kubeconfig", file.to_str().unwrap()];
    let (code, printed) = serve(&folder.path().join("data"), &arguments, &[]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("cannot connect to Kubernetes: the TLS or client configuration"), "{printed}");
    assert!(!printed.contains("unreachable"), "{printed}");
}

#[test]
fn a_mismatching_key_is_detected_before_the_server_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, "no key").unwrap();
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let arguments = ["--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key];
    let (code, printed) = serve(&folder.path().join("data"), &arguments, &[]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("server.key do not make TLS") && !printed.contains("serving"), "{printed}");
}

#[rstest]
#[case("1", "the server may listen on loopback addresses only, not on 0.0.0.0:1")]
#[case("true", "the server may listen on loopback addresses only, not on 0.0.0.0:1")]
#[case("0", "auth is 'none'")]
#[case("false", "auth is 'none'")]
#[case("perhaps", "invalid value 'perhaps'")]
fn the_variable_for_development_mode_is_a_boolean(#[case] value: &str, #[case] words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "0.0.0.0:1", "--auth", "none"];
    let (code, printed) = serve(folder.path(), &arguments, &[("MUSTER_DEV", value)]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains(words), "{printed}");
}

#[tokio::test]
async fn two_servers_do_not_share_a_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = spawn(&folder, &["--dev".to_owned()]);
    first.wait_for_line("serving", TIMEOUT).await;
    let mut second = spawn(&folder, &["--dev".to_owned()]);
    let line = second.wait_for_line("another server uses the data folder", TIMEOUT).await;
    assert!(line.contains("--data-dir"), "{line}");
    assert_eq!(second.wait_for_exit(TIMEOUT).await.code(), Some(3));
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let (code, printed) = serve(folder.path(), &["--dev", "--listen", &address], &[]);
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains(&format!("cannot listen on {address}")), "{printed}");
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

#[rstest]
#[case::that_is_new(false)]
#[case::that_was_made_for_it(true)]
#[tokio::test]
async fn a_data_folder_is_private(#[case] there: bool) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    if there {
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = Server::start_in(folder, &["--dev"]).await;
    server.create("fred", 1).await;
    assert_eq!(mode(&data), 0o700, "{:o}", mode(&data));
    for file in ["muster.db", "muster.db-wal", "muster.db-shm", "lock"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_database_file_that_others_could_read_is_made_private() {
    let server = Server::dev().await;
    let file = server.data().join("muster.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let server = server.kill_and_start_again().await;
    server.create("fred", 1).await;
    assert_eq!((mode(&file), mode(&server.data().join("muster.db-wal"))), (0o600, 0o600));
}

#[tokio::test]
async fn a_server_runs_on_if_its_log_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let announcement = folder.path().join("server.json");
    let mut command = Command::new("sh");
    let line = r#"exec "$@" 2> /dev/full"#;
    command.args(["-c", line, "sh", env!("CARGO_BIN_EXE_muster"), "serve", "--dev", "--log", "debug"]);
    command
        .args(["--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path());
    let mut server = Process::spawn("muster", &command);
    // Its log cannot say that it serves: wait for the announcement.
    eventually(
        "the announcement",
        TIMEOUT,
        async || {
            if announcement.exists() { Ok(()) } else { Err(server.tail()) }
        },
    )
    .await;
    server.terminate();
    assert!(server.wait_for_exit(TIMEOUT).await.success());
    let mut second = Command::new("sh");
    second.args(["-c", line, "sh", env!("CARGO_BIN_EXE_muster"), "serve", "--auth", "magic", "--data-dir"]);
    let code = Process::spawn("muster", second.arg(folder.path())).wait_for_exit(TIMEOUT).await.code();
    assert_eq!(code, Some(2));
}
