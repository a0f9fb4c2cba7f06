//! Requests with a request id.

use muster_core::change::{Change, ResizeGroup};
use muster_core::principal::{Door, Role};
use muster_core::resize::Resize;
use muster_service::{Caller, Mutation, ServiceError};

use crate::harness::{Harness, REACHED, caller, changing};

#[tokio::test]
async fn a_repeated_request_is_answered_by_its_first_action_and_not_submitted_again() {
    let harness = Harness::open().await;
    let (service, cluster) = (&harness.service, harness.cluster("fred").await);
    let request = Some(("my-request".to_owned(), "digest".to_owned()));
    let caller = Caller { request, ..caller(Door::Core) };
    let mutation = Mutation { access: changing("demo", Role::Member), caller, wait: REACHED };
    let resize = ResizeGroup { group: None, resize: Resize::exactly(2), candidates: None };
    let submit =
        Box::pin(async { service.change_cluster(&mutation.caller, &cluster, Change::Resize(resize)).await });
    let (resized, first) = service.mutate(&mutation, submit).await.expect("resized");
    assert_eq!(resized.desired(), 2);

    let never = Box::pin(async { Err(ServiceError::invalid("it was submitted again")) });
    let (_, replayed) = service.mutate(&mutation, never).await.expect("the first answer");
    assert_eq!(replayed.id, first.id);
}
