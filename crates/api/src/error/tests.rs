use rstest::rstest;

use super::*;

#[rstest]
#[case(3, 400)]
#[case(4, 504)]
#[case(5, 404)]
#[case(6, 409)]
#[case(7, 403)]
#[case(8, 429)]
#[case(9, 400)]
#[case(10, 409)]
#[case(12, 501)]
#[case(13, 500)]
#[case(14, 503)]
#[case(16, 401)]
#[case(2, 500)]
fn a_foreign_status_has_the_http_status_of_its_code(#[case] code: i32, #[case] http: u16) {
    let error = ApiError::from(&Status::new(Code::from(code), "so it is"));
    assert_eq!((error.status.as_u16(), error.grpc_code as i32), (http, code));
    assert_eq!(error.message, "so it is");
}

#[rstest]
#[case(ApiError::expired("the page token is too old"), 410, 9)]
#[case(ApiError::quota("5 clusters are allowed"), 403, 7)]
#[case(ApiError::reused("the request id was used"), 422, 3)]
#[case(ApiError::exists("taken").code("ClusterNameTaken"), 409, 6)]
fn an_error_of_ours_comes_back_whole_from_its_status(
    #[case] error: ApiError,
    #[case] http: u16,
    #[case] grpc: i32,
) {
    assert_eq!((error.status.as_u16(), error.grpc_code as i32), (http, grpc));
    let status = Status::from(error.clone().about("a-1"));
    assert_eq!(status.metadata().get(ERROR_HEADER).unwrap(), error.code.as_str());
    assert_eq!(status.metadata().get(ACTION_HEADER).unwrap(), "a-1");
    assert_eq!(ApiError::from(&status), error.about("a-1"));
}

#[test]
fn the_details_have_the_code() {
    let status = Status::from(ApiError::exists("taken").code("ClusterNameTaken"));
    let details = muster_proto::rpc::Status::decode(status.details()).unwrap();
    let info = ErrorInfo::decode(details.details[0].value.as_slice()).unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("ClusterNameTaken", "muster.dev"));
    assert_eq!(details.details[0].type_url, ERROR_INFO);
}
