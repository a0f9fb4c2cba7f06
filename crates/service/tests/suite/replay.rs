//! Repeated requests with the same request id.

use muster_core::action::Milestone;
use muster_core::change::{Change, ResizeGroup};
use muster_core::image_template::{ImageSpec, ImageState};
use muster_core::principal::{Door, Role};
use muster_core::resize::Resize;
use muster_core::sample;
use muster_core::time::TimeSpan;
use muster_engine::Config;
use muster_service::find::{ClusterRef, FindError};
use muster_service::{Caller, ErrorKind, MilestoneWait, Mutation, ServiceError, Writer};
use muster_testkit::fake::Verb;
use rstest::rstest;

use crate::harness::{Harness, REACHED, Rays, caller, changing};

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

#[rstest]
#[case::member_of_another_project("other", Role::Member, ErrorKind::NotFound, "no such cluster")]
#[case::reader("demo", Role::Reader, ErrorKind::Forbidden, "Ann may only read cluster 'fred'")]
#[tokio::test]
async fn a_repeated_request_is_refused_like_a_new_one_once_its_caller_has_lost_the_role(
    #[case] project: &str,
    #[case] role: Role,
    #[case] kind: ErrorKind,
    #[case] begins: &str,
) {
    let harness = Harness::open().await;
    let (service, cluster) = (&harness.service, harness.cluster("fred").await);
    let named = ClusterRef { namespace: "demo", name: "fred", framework: "", provider: "", id: None };
    let resize = ResizeGroup { group: None, resize: Resize::exactly(2), candidates: None };
    let attempt = async |access| {
        let request = Some(("my-request".to_owned(), "digest".to_owned()));
        let caller = Caller { request, ..caller(Door::Core) };
        let mutation = Mutation { access, caller, wait: REACHED };
        let submit = Box::pin(async {
            let found =
                service.find_cluster(&mutation.access, &named).await.map_err(|error| match error {
                    FindError::Service(error) => error,
                    _ => ServiceError::not_found("no such cluster"),
                })?;
            service.change_cluster(&mutation.caller, &found, Change::Resize(resize.clone())).await
        });
        service.mutate(&mutation, submit).await.map(|(cluster, _)| cluster.id)
    };
    assert_eq!(attempt(changing("demo", Role::Member)).await, Ok(cluster.id));
    let refused = attempt(changing(project, role)).await.expect_err("refused");
    assert_eq!(refused.kind, kind, "{refused}");
    assert!(refused.message.starts_with(begins), "{refused}");
    assert_eq!(attempt(changing("demo", Role::Member)).await, Ok(cluster.id));
}

#[tokio::test]
async fn a_repeated_request_does_not_show_a_hidden_cluster_even_if_it_is_accepted_again() {
    let harness = Harness::open().await;
    let (service, cluster) = (&harness.service, harness.cluster("fred").await);
    let request = Some(("my-request".to_owned(), "digest".to_owned()));
    let caller = Caller { request, ..caller(Door::Core) };
    let resize = ResizeGroup { group: None, resize: Resize::exactly(2), candidates: None };
    let attempt = async |project| {
        let access = changing(project, Role::Member);
        let mutation = Mutation { access, caller: caller.clone(), wait: REACHED };
        let change = Change::Resize(resize.clone());
        let submit = Box::pin(service.change_cluster(&mutation.caller, &cluster, change));
        service.mutate::<ServiceError>(&mutation, submit).await.map(|(cluster, _)| cluster.id)
    };
    assert_eq!(attempt("demo").await, Ok(cluster.id));
    assert_eq!(attempt("other").await.map_err(|error| error.kind), Err(ErrorKind::NotFound));
}

fn writer(request: &str, digest: &str) -> Writer {
    let named = Some((request.to_owned(), digest.to_owned()));
    Writer { principal: sample::principal(), door: Door::Core, request_id: String::new(), named }
}

#[tokio::test]
async fn a_repeated_creation_of_an_image_template_gets_the_first_template() {
    let harness = Harness::with(Config::default(), Rays::over).await;
    let (service, access) = (&harness.service, changing("demo", Role::Member));
    let create = async |writer: Writer| {
        let spec = ImageSpec { pip_packages: vec!["six".to_owned()], ..ImageSpec::default() };
        service.create_image_template(&access, &writer, ("demo", "tools"), "", spec).await
    };
    let first = create(writer("my-request", "a")).await.expect("created");
    assert_eq!(create(writer("my-request", "a")).await.map(|again| again.id), Ok(first.id));
    let reused = create(writer("my-request", "b")).await.expect_err("another request");
    assert_eq!(reused.kind, ErrorKind::RequestIdReused);
    let taken = create(writer("other-request", "a")).await.expect_err("the name is taken");
    assert_eq!(taken.kind, ErrorKind::Exists);

    let delete = async |request: &str| {
        service.delete_image_template(&access, &writer(request, "delete"), "demo", "tools", false).await
    };
    assert_eq!(delete("my-deletion").await, Ok(()));
    assert_eq!(delete("my-deletion").await, Ok(()), "the answer of the first");
    assert_eq!(delete("other-deletion").await.map_err(|error| error.kind), Err(ErrorKind::NotFound));
    let gone = create(writer("my-request", "a")).await.expect_err("the first template was deleted");
    assert_eq!(gone.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn a_creation_of_an_image_template_waits_for_the_end_of_its_build() {
    let harness = Harness::with(Config::default(), Rays::over).await;
    let (service, access) = (&harness.service, changing("demo", Role::Member));
    harness.world.hold(Verb::Build);
    let create = async |name: &str, wait: &MilestoneWait| {
        let writer = Writer { named: None, ..writer("", "") };
        let named = ("demo", name);
        let created =
            service.create_image_template(&access, &writer, named, "", ImageSpec::default()).await?;
        service.wait_for_image(created, wait).await.map(|template| template.state())
    };
    let at_once = MilestoneWait { milestone: Milestone::Applied, ..REACHED };
    assert_eq!(create("applied", &at_once).await, Ok(ImageState::Pending));
    let soon = MilestoneWait { at_most: TimeSpan::default(), ..REACHED };
    let late = create("late", &soon).await.expect_err("its build is held");
    assert_eq!(late.kind, ErrorKind::TimedOut);
    harness.world.release();
    assert_eq!(create("built", &REACHED).await, Ok(ImageState::Ready));
}
