//! Every answer says which request it is to, and the log knows it by the same id.

use reqwest::Method;

use crate::access;

#[tokio::test]
async fn a_request_has_one_id_in_both_headers_and_in_the_log_whoever_refuses_it() {
    let mut service = access::service().await;
    let refused = [
        (None, Method::GET, "/clusters", 401, "Unauthorized"),
        (Some("member"), Method::GET, "/nothing", 404, "ResourceNotFound"),
        (Some("member"), Method::PUT, "/clusters", 405, "MethodNotAllowed"),
        (Some("member"), Method::GET, "/clusters/%ff", 400, "BadRequest"),
        (Some("member"), Method::GET, "/clusters/nothing", 404, "ResourceNotFound"),
        (Some("reader"), Method::DELETE, "/clusters/nothing", 403, "Forbidden"),
    ];
    for (token, method, path, status, word) in refused {
        service.token = token.map(str::to_owned);
        let answer = service.send(method, path, None).await;
        assert_eq!((answer.status, answer.header("muster-error")), (status, word), "{path}");
        let id = answer.header("x-request-id");
        assert_eq!(answer.header("x-openstack-request-id"), format!("req-{id}"), "{path}");
        let line = service.says(id).await;
        for part in ["refused", &status.to_string(), word] {
            assert!(line.contains(part), "{part} is missing: {line}");
        }
    }
}

#[tokio::test]
async fn an_answer_has_the_id_of_its_request_too() {
    let mut service = access::service().await;
    service.token = Some("member".to_owned());
    for path in ["/clusters", "", "/"] {
        let answer = service.get(path).await;
        let id = answer.header("x-request-id");
        assert_eq!((answer.status, answer.header("muster-error")), (200, ""), "{path}");
        assert_eq!(answer.header("x-openstack-request-id"), format!("req-{id}"), "{path}");
    }
}
