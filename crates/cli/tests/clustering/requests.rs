//! Every answer has the request id under which the log has the request.

use reqwest::Method;

use crate::access;

#[tokio::test]
async fn a_refused_request_has_one_id_in_both_headers_and_in_the_log() {
    let mut server = access::start_server().await;
    let refused = [
        (None, Method::GET, "/clusters", 401, "Unauthorized"),
        (Some("member"), Method::GET, "/nothing", 404, "ResourceNotFound"),
        (Some("member"), Method::PUT, "/clusters", 405, "MethodNotAllowed"),
        (Some("member"), Method::GET, "/clusters/%ff", 400, "BadRequest"),
        (Some("member"), Method::GET, "/clusters/nothing", 404, "ResourceNotFound"),
        (Some("reader"), Method::DELETE, "/clusters/nothing", 403, "Forbidden"),
    ];
    for (token, method, path, status, word) in refused {
        server.token = token.map(str::to_owned);
        let answer = server.send(method, path, None).await;
        assert_eq!((answer.status, answer.header("muster-error")), (status, word), "{path}");
        let id = answer.header("x-request-id");
        assert_eq!(answer.header("x-openstack-request-id"), format!("req-{id}"), "{path}");
        let line = server.wait_for_log(id).await;
        for part in ["refused", &status.to_string(), word] {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
    }
}

#[tokio::test]
async fn an_answer_has_the_id_of_its_request() {
    let mut server = access::start_server().await;
    server.token = Some("member".to_owned());
    for path in ["/clusters", "", "/"] {
        let answer = server.get(path).await;
        let id = answer.header("x-request-id");
        assert_eq!((answer.status, answer.header("muster-error")), (200, ""), "{path}");
        assert_eq!(answer.header("x-openstack-request-id"), format!("req-{id}"), "{path}");
    }
}
