//! TLS on both ports.

use muster_proto::v1alpha2::InfoRequest;
use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use serde_json::Value;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::server::{TIMEOUT, spawn};

#[tokio::test]
async fn both_ports_speak_tls_with_the_given_certificate() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let argument = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let arguments =
        ["--dev".into(), "--tls-cert".into(), argument(&certificate), "--tls-key".into(), argument(&key)];
    let server = spawn(&folder, &arguments);
    server.wait_for_line("serving", TIMEOUT).await;
    let announced = std::fs::read(folder.path().join("data/server.json")).unwrap();
    let announced: Value = serde_json::from_slice(&announced).unwrap();
    let address = |key: &str| format!("https://{}", announced[key].as_str().unwrap());
    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([trusted]).build().unwrap();
    let ready = client.get(format!("{}/readyz", address("rest"))).send().await.unwrap();
    assert!(ready.status().is_success());
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(made.cert.pem()))
        .domain_name("localhost");
    let channel =
        Endpoint::from_shared(address("grpc")).unwrap().tls_config(tls).unwrap().connect().await.unwrap();
    let info = AdminServiceClient::new(channel).info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.dev, info.database.as_str()), (true, "sqlite"));
    let plain = reqwest::get(format!("http://{}/readyz", announced["rest"].as_str().unwrap())).await;
    assert!(plain.is_err(), "it speaks plain HTTP too: {plain:?}");
}
