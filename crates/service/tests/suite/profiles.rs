//! Profiles: the shapes that they name, and the profile that a text names.

use muster_core::compute_template::TemplateSpec;
use muster_core::ids::ProfileId;
use muster_core::principal::{Door, Role};
use muster_core::profile::Profile;
use muster_core::sample;
use muster_engine::Config;
use muster_service::profiles::ProfileError;
use muster_service::{ErrorKind, Writer};
use muster_testkit::fake::FAKE_NODE;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Harness, Rays, changing};

fn writer() -> Writer {
    Writer { principal: sample::principal(), door: Door::Clustering, request_id: String::new(), named: None }
}

#[tokio::test]
async fn a_profile_may_name_a_compute_template_of_its_namespace() {
    let harness = Harness::with(Config::default(), Rays::over).await;
    let (service, access) = (&harness.service, changing("demo", Role::Member));
    let template = TemplateSpec { cpu: 2, memory: 4, ..TemplateSpec::default() };
    service.create_compute_template(&access, &writer(), "demo", "small", template).await.expect("a template");
    let build = async |shape: &str| {
        let worker = json!({"shape": shape, "cpu": "3"});
        let spec = json!({"type": "ray.cluster", "version": "1.0", "properties": {"worker": worker}});
        service.build_profile(&sample::principal(), "p", &spec).await
    };
    let worker = build("small").await.expect("a profile").properties["worker"].clone();
    assert_eq!(worker, json!({"shape": "small", "cpu": "3", "memory": "4Gi"}));
    match build("large").await {
        Err(ProfileError::Service(refused)) => {
            assert!(
                refused.message.starts_with("shape 'large' not found in namespace 'demo': "),
                "{refused}"
            );
            assert_eq!(refused.code.as_deref(), Some("UnknownShape"));
        }
        built => panic!("{built:?}"),
    }
}

#[tokio::test]
async fn a_stored_profile_is_found_by_id_and_by_a_unique_name() {
    let harness = Harness::open().await;
    let (service, access) = (&harness.service, changing("demo", Role::Member));
    let store = async |name: &str, project: &str, implicit: bool| {
        let profile = Profile {
            id: ProfileId::from_uuid(Uuid::now_v7()),
            name: name.to_owned(),
            kind: FAKE_NODE.parse().expect("a profile type"),
            project: project.to_owned(),
            implicit,
            ..sample::profile()
        };
        service.create_profile(&writer(), profile.clone()).await.expect("stored");
        profile.id
    };
    let (first, theirs) = (store("first", "demo", false).await, store("theirs", "other", false).await);
    // The profile of a single cluster has the name of the cluster.
    store("first", "demo", true).await;
    store("twin", "demo", false).await;
    store("twin", "demo", false).await;
    let find = async |given: &str| Ok(service.stored_profile(&access, given).await?.map(|found| found.id));
    let id = |id: ProfileId| id.to_string();
    let cases = [
        (id(first), Some(first)),
        ("first".to_owned(), Some(first)),
        (id(theirs), None),
        ("theirs".to_owned(), None),
        (FAKE_NODE.to_owned(), None),
    ];
    for (given, expected) in cases {
        let found: Result<_, muster_service::ServiceError> = find(&given).await;
        assert_eq!(found.expect("read"), expected, "{given}");
    }
    let refused = find("twin").await.expect_err("two have the name");
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.starts_with("2 profiles are named 'twin': use one of the ids "), "{refused}");
}
