//! Every method and every route: there, and closed to strangers.

use std::sync::Arc;

use muster_api::access::{self, CASES};
use muster_proto::rest::METHODS;
use reqwest::header;
use serde_json::json;

use crate::fake::Fake;
use crate::world::{TOKEN, World, answer, endpoints};

/// The path of a rule with something in the place of each parameter.
fn filled(path: &str) -> String {
    path.replace(['{', '}'], "")
}

#[test]
fn every_method_is_served_and_has_an_authorization_case() {
    let served = endpoints(&Arc::new(Fake));
    for method in METHODS {
        assert!(access::of(method.grpc_path).is_some(), "{} has no case", method.grpc_path);
        assert!(
            served.iter().any(|endpoint| endpoint.method.grpc_path == method.grpc_path),
            "{}",
            method.grpc_path
        );
    }
    assert_eq!(served.len(), CASES.len());
}

#[tokio::test]
async fn every_route_is_there_and_closed_to_strangers() {
    let world = World::new().await;
    for (method, rule) in
        METHODS.iter().flat_map(|method| method.rules.iter().map(move |rule| (method, rule)))
    {
        let path = filled(rule.path);
        let (status, body) = answer(world.anonymous(rule.verb.clone(), &path)).await;
        assert_eq!((status, body["code"].as_i64()), (401, Some(16)), "{} {path}", rule.verb);
        let request = world.request(rule.verb.clone(), &path).json(&json!({"replicas": 1}));
        let status = request.send().await.unwrap().status().as_u16();
        assert!(status == 200, "{} {path}: {status} ({})", rule.verb, method.grpc_path);
    }
}

#[tokio::test]
async fn every_grpc_method_is_there_and_closed_to_strangers() {
    let world = World::new().await;
    let client = reqwest::Client::builder().tls_certs_only([]).http2_prior_knowledge().build().unwrap();
    // An empty message: not compressed, of no length.
    let frame = vec![0_u8; 5];
    for method in METHODS {
        let call = || {
            let request = client.post(format!("{}{}", world.grpc, method.grpc_path));
            request
                .header(header::CONTENT_TYPE, "application/grpc")
                .header(header::TE, "trailers")
                .body(frame.clone())
        };
        let refused = call().send().await.unwrap();
        assert_eq!(refused.headers()["grpc-status"], "16", "{}", method.grpc_path);
        let answered = call().bearer_auth(TOKEN).send().await.unwrap();
        let status = answered.headers().get("grpc-status").map(|value| value.to_str().unwrap().to_owned());
        assert!(!matches!(status.as_deref(), Some("12" | "16")), "{}: {status:?}", method.grpc_path);
    }
}
