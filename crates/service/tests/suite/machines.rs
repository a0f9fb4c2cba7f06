//! Machine groups and their guests, with a namespace that has another name than its project.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_core::principal::{Principal, Role};
use muster_core::profile::Profile;
use muster_core::projects::ProjectNamespaces;
use muster_core::sample;
use muster_core::time::Timestamp;
use muster_engine::Config;
use muster_engine::ports::machines::{Guest, MachineGroup, MachineProvider, MachineType};
use muster_service::Service;
use muster_service::profiles::ProfileError;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::{Harness, Rays, changing};

const NAMESPACES: [&str; 3] = ["demo", "team-a", "other"];

/// The type `t` of the group `g`, with a guest in each namespace.
struct Slots;

impl MachineProvider for Slots {
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    fn groups(&self) -> Result<Vec<MachineGroup>, String> {
        let guest = |namespace: &str| Guest {
            namespace: namespace.to_owned(),
            pod: "p".to_owned(),
            has_slot: true,
            position: None,
            since: Timestamp::from_micros(1),
        };
        let machine_type = MachineType {
            name: "t".to_owned(),
            cpu: "1".to_owned(),
            memory: "1Gi".to_owned(),
            gpu: None,
            gpu_resource: None,
            maximum: 3,
            reserved: 0,
            used: 3,
            waiting: 0,
            guests: NAMESPACES.map(guest).into(),
        };
        Ok(vec![MachineGroup { name: "g".to_owned(), machine: "m".to_owned(), types: vec![machine_type] }])
    }

    fn queue(&self, _: &str, _: &str) -> Option<HashMap<String, usize>> {
        None
    }

    fn guest_labels(&self, namespace: &str, _: &str, _: &str) -> Result<BTreeMap<String, String>, String> {
        Ok(BTreeMap::from([("guest-in".to_owned(), namespace.to_owned())]))
    }
}

/// The project `demo` has the namespace `team-a`.
async fn harness() -> Harness {
    let mapping = BTreeMap::from([("demo".to_owned(), "team-a".to_owned())]);
    let projects = ProjectNamespaces::try_from(mapping).expect("a mapping");
    Harness::with(Config { projects, ..Config::default() }, Rays::over).await
}

fn with_machines(harness: &Harness) -> Service {
    harness.service.clone().with_machines(Some(Arc::new(Slots)))
}

#[rstest]
#[case::by_its_namespace("demo", Role::Reader, &["team-a"])]
#[case::not_by_the_name_of_another_projects_namespace("team-a", Role::Member, &[])]
#[case::by_its_name("other", Role::Member, &["other"])]
#[case::an_admin("other", Role::Admin, &NAMESPACES)]
#[tokio::test]
async fn guests_are_shown_to_the_project_of_their_namespace(
    #[case] project: &str,
    #[case] role: Role,
    #[case] expected: &[&str],
) {
    let service = with_machines(&harness().await);
    let groups = service.machine_groups(&changing(project, role)).expect("the groups");
    let guests = groups.iter().flat_map(|group| &group.types).flat_map(|of_type| &of_type.guests);
    let namespaces: Vec<&str> = guests.map(|guest| guest.namespace.as_str()).collect();
    assert_eq!(namespaces, expected);
}

#[tokio::test]
async fn without_machines_neither_groups_nor_guests_are_known() {
    let harness = harness().await;
    let groups = harness.service.machine_groups(&changing("demo", Role::Member));
    assert_eq!(groups.expect_err("refused").code.as_deref(), Some("NoMachines"));
    let head = json!({"machine_group": "g", "machine_type": "t"});
    match ray_profile(&harness.service, "demo", &json!({"head": head})).await {
        Err(ProfileError::Service(refused)) => assert_eq!(refused.code.as_deref(), Some("NoMachines")),
        built => panic!("{built:?}"),
    }
}

async fn ray_profile(service: &Service, project: &str, properties: &Value) -> Result<Profile, ProfileError> {
    let principal = Principal { project: project.to_owned(), ..sample::principal() };
    let spec = json!({"type": "ray.cluster", "version": "1.0", "properties": properties});
    service.build_profile(&principal, "p", &spec).await
}

#[rstest]
#[case::of_the_project("demo", json!({}), "team-a")]
#[case::that_the_recipe_names("demo", json!({"namespace": "team-a"}), "team-a")]
#[case::of_a_project_of_its_name("other", json!({}), "other")]
#[tokio::test]
async fn names_in_a_profile_are_resolved_in_the_namespace_of_its_nodes(
    #[case] project: &str,
    #[case] mut properties: Value,
    #[case] namespace: &str,
) {
    let service = with_machines(&harness().await);
    properties["head"] = json!({"machine_group": "g", "machine_type": "t"});
    let profile = ray_profile(&service, project, &properties).await.expect("a profile");
    assert_eq!(profile.properties["head"]["pod"]["labels"], json!({"guest-in": namespace}));
}
