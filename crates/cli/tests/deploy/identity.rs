//! Callers that Kubernetes authenticates, on both protocols of the core API.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::DeleteParams;
use muster_proto::v1alpha2::admin_service_client::AdminServiceClient;
use muster_proto::v1alpha2::{WhoAmIRequest, WhoAmIResponse};
use muster_testkit::{Component, Kubernetes, Namespace};
use reqwest::Method;
use serde_json::{Value, json};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

use crate::release;
use crate::server::{Server, refused};

const WHOAMI: &str = "/apis/v1alpha2/admin/whoami";

async fn started(kubernetes: &Kubernetes, namespace: &Namespace) -> Server {
    let kubeconfig = kubernetes.kubeconfig().to_str().expect("a plain path").to_owned();
    let arguments = ["--kubeconfig", &kubeconfig, "--namespace", namespace.name(), "--auth", "kubernetes"];
    Server::start(tempfile::tempdir().expect("a folder"), &arguments).await
}

/// Returns what both protocols report about the owner of a token.
async fn whoami(server: &mut Server, token: &str) -> ((u16, Value), Result<WhoAmIResponse, Status>) {
    token.clone_into(&mut server.token);
    let rest = server.call(Method::GET, WHOAMI, None).await;
    let channel =
        Endpoint::from_shared(server.grpc.clone()).expect("an address").connect().await.expect("gRPC");
    let mut request = Request::new(WhoAmIRequest {});
    let value = format!("Bearer {token}").parse().expect("a header");
    request.metadata_mut().insert("authorization", value);
    let grpc = AdminServiceClient::new(channel).who_am_i(request).await;
    (rest, grpc.map(tonic::Response::into_inner))
}

#[tokio::test]
async fn a_service_account_has_the_role_that_its_rights_in_its_namespace_allow() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    release::account(&namespace, "robot").await;
    release::account(&namespace, "editor").await;
    release::bind_role(&namespace, "editor", "edit").await;
    let token = release::token(&namespace, "robot").await;
    let mut server = started(&kubernetes, &namespace).await;
    let editor = release::token(&namespace, "editor").await;
    let ((_, rest), _) = whoami(&mut server, &editor).await;
    assert_eq!(rest["roles"], json!(["member"]), "it may create pods: {rest}");
    let ((status, rest), grpc) = whoami(&mut server, &token).await;
    let (id, project) = (format!("system:serviceaccount:{}:robot", namespace.name()), namespace.name());
    assert_eq!(status, 200, "{rest}");
    let expected = json!({
        "scheme": "kubernetes", "id": id, "name": "robot", "project": project, "roles": ["reader"],
        "namespace": project,
    });
    assert_eq!(rest, expected);
    let grpc = grpc.unwrap();
    assert_eq!((grpc.id, grpc.project.as_str()), (id, project));

    let ((status, rest), _) = whoami(&mut server, &release::admin_token(&kubernetes)).await;
    assert_eq!((status, &rest["id"], &rest["project"]), (200, &json!("admin"), &json!("default")), "{rest}");
    assert_eq!(rest["roles"], json!(["admin"]));
}

#[tokio::test]
async fn an_invalid_token_is_refused() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    for account in ["robot", "former"] {
        release::account(&namespace, account).await;
    }
    let good = release::token(&namespace, "robot").await;
    let gone = release::token(&namespace, "former").await;
    let accounts = namespace.api::<ServiceAccount>();
    accounts.delete("former", &DeleteParams::default()).await.unwrap();
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", signature.chars().rev().collect::<String>());
    let mut server = started(&kubernetes, &namespace).await;
    for (what, token) in [("garbage", "garbage"), ("forged", &forged), ("of a deleted account", &gone)] {
        let ((status, body), grpc) = whoami(&mut server, token).await;
        assert_eq!(status, 401, "{what}: {body}");
        assert!(
            body["message"].as_str().unwrap().contains("not valid (authentication schemes: kubernetes)"),
            "{body}"
        );
        assert_eq!(grpc.unwrap_err().code(), Code::Unauthenticated, "{what}");
    }
}

#[tokio::test]
async fn during_an_outage_of_kubernetes_tokens_are_not_reported_as_wrong() {
    let Some(own) = muster_testkit::own_kubernetes().await else { return };
    let namespace = own.namespace().await;
    release::account(&namespace, "robot").await;
    let token = release::token(&namespace, "robot").await;
    let mut server = started(&own, &namespace).await;
    own.kill(Component::ApiServer).await;
    let ((status, body), grpc) = whoami(&mut server, &token).await;
    assert_eq!(status, 503, "{body}");
    let printed = body["message"].as_str().unwrap();
    assert!(printed.starts_with("cannot identify the caller: cannot review the token: "), "{printed}");
    assert_eq!(grpc.unwrap_err().code(), Code::Unavailable);
    own.start(Component::ApiServer).await;
    let ((status, body), _) = whoami(&mut server, &token).await;
    assert_eq!(status, 200, "an answer that did not come is not remembered: {body}");
}

#[tokio::test]
async fn a_server_without_the_right_to_review_tokens_says_so_at_its_start() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    release::account(&namespace, "robot").await;
    let token = release::token(&namespace, "robot").await;
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = release::kubeconfig(&kubernetes, &folder, &token);
    let kubeconfig = kubeconfig.to_str().expect("a plain path");
    let (code, printed) = refused(&folder, &["--auth", "kubernetes", "--kubeconfig", kubeconfig]).await;
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("auth is 'kubernetes', but Muster may not create TokenReviews"), "{printed}");
    assert!(printed.contains("cannot create resource \"tokenreviews\""), "{printed}");
}
