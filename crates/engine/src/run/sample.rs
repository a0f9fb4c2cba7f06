//! A sample subject for tests.

use std::collections::HashMap;

use muster_core::node::Node;
use muster_core::sample;

use crate::ports::provider::{Capabilities, Membership};
use crate::run::{Members, RunSubject};

/// A cluster with these members.
pub(crate) fn subject(nodes: Vec<Node>, membership: Membership) -> RunSubject {
    let desired = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    RunSubject {
        cluster: sample::cluster(desired, 0, None),
        uncommitted: None,
        stored: true,
        profile: sample::profile(),
        profiles: HashMap::new(),
        target: None,
        nodes: Members::new(nodes),
        bindings: Vec::new(),
        capabilities: Capabilities {
            membership,
            head: false,
            workers_outlive_head: false,
            several_groups: false,
            orphans: true,
            choose_victims: true,
            update_in_place: true,
            heals_by_default: true,
            adopt: false,
            reports_activity: false,
            supports_placement: false,
            reports_machines: false,
        },
        node_limit: 1000,
        obstacles: Vec::new(),
    }
}
