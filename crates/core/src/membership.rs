//! Checks of membership changes, for requests and again for their actions.

use crate::cluster::Cluster;
use crate::ids::ClusterId;
use crate::node::{Node, NodeStatus};
use crate::profile::ProfileType;
use crate::spec::listed;

/// The message for a request that removes the head from its cluster.
pub const HEAD_STAYS: &str = "the head cannot be removed from its cluster: delete the cluster instead";

/// The reason why workers of a type cannot become orphans.
pub fn cannot_leave(kind: &ProfileType) -> String {
    format!("workers of {kind} cannot leave; pass destroy_after_deletion")
}

/// The reason why a single node of a type cannot be moved to another profile.
pub fn cannot_have_own_profile(kind: &ProfileType) -> String {
    format!("nodes of type {kind} cannot have their own profile: update the profile of their cluster instead")
}

/// The end of the message for nodes of another provider instance.
const ELSEWHERE: &str = "run on another instance than the cluster.";

/// A node that a request names, with its row if the node exists.
#[derive(Debug, Clone, Copy)]
pub struct RequestedNode<'a> {
    /// The name in the request.
    pub given: &'a str,
    /// The node and the type of its profile, if it exists.
    pub node: Option<(&'a Node, &'a ProfileType)>,
}

/// The reasons why these nodes cannot be added to a cluster, one per line; none if they can.
pub fn cannot_add(cluster: &Cluster, nodes: &[RequestedNode<'_>]) -> Option<String> {
    let kind = &cluster.profile_type;
    let bad = |wrong: &dyn Fn(&Node, &ProfileType) -> bool| ids(nodes, wrong);
    let lines = [
        line("Profile type of nodes", &bad(&|_, own| own != kind), "does not match that of the cluster."),
        line("Nodes", &bad(&|node, _| node.cluster_id.is_some()), "already owned by some cluster."),
        line("Nodes are not ACTIVE:", &bad(&|node, _| node.status != NodeStatus::Active), "."),
        line("Nodes", &bad(&|node, _| node.instance != cluster.instance), ELSEWHERE),
        line("Nodes not found:", &missing(nodes), "."),
    ];
    all(lines)
}

/// The reasons why these nodes cannot be removed from a cluster, one per line; none if they can.
pub fn cannot_remove(cluster: ClusterId, nodes: &[RequestedNode<'_>]) -> Option<String> {
    let strangers = ids(nodes, &|node, _| node.cluster_id != Some(cluster));
    all([
        line("Nodes not found:", &missing(nodes), "."),
        line("Nodes not members of specified cluster:", &strangers, "."),
        None,
        None,
    ])
}

/// The reasons why these members cannot be replaced by these nodes, one per line; none if they can.
pub fn cannot_replace(
    cluster: &Cluster,
    old: &[RequestedNode<'_>],
    new: &[RequestedNode<'_>],
) -> Option<String> {
    let bad = |wrong: &dyn Fn(&Node, &ProfileType) -> bool| ids(new, wrong);
    let kind = &cluster.profile_type;
    let strangers = ids(old, &|node, _| node.cluster_id != Some(cluster.id));
    let strange = format!("to be replaced are not members of the cluster {}.", cluster.name);
    let lines = [
        line("The specified nodes", &strangers, &strange),
        line("Nodes", &bad(&|node, _| node.cluster_id.is_some()), "already member of a cluster."),
        line("Nodes are not ACTIVE:", &bad(&|node, _| node.status != NodeStatus::Active), "."),
        line("Profile type of nodes", &bad(&|_, own| own != kind), "do not match that of the cluster."),
        line("Nodes", &bad(&|node, _| node.instance != cluster.instance), ELSEWHERE),
        line("Original nodes not found:", &missing(old), "."),
        line("Replacement nodes not found:", &missing(new), "."),
    ];
    all(lines)
}

fn line(before: &str, names: &[String], after: &str) -> Option<String> {
    let space = if after.starts_with('.') { "" } else { " " };
    (!names.is_empty())
        .then(|| format!("{before} {}{space}{after}", listed(names.iter().map(String::as_str))))
}

fn all<const N: usize>(lines: [Option<String>; N]) -> Option<String> {
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn missing(nodes: &[RequestedNode<'_>]) -> Vec<String> {
    nodes.iter().filter(|found| found.node.is_none()).map(|found| found.given.to_owned()).collect()
}

fn ids(nodes: &[RequestedNode<'_>], wrong: &dyn Fn(&Node, &ProfileType) -> bool) -> Vec<String> {
    let found = nodes.iter().filter_map(|found| found.node);
    found.filter(|(node, kind)| wrong(node, kind)).map(|(node, _)| node.id.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::InstanceId;
    use crate::sample;

    fn kind() -> ProfileType {
        sample::profile().kind
    }

    fn cluster() -> Cluster {
        sample::cluster(1, 0, None)
    }

    #[test]
    fn nodes_of_another_instance_stay_there() {
        let instance: InstanceId = "fake:elsewhere".parse().unwrap();
        let (node, member, kind) = (Node { instance, ..orphan(1) }, sample::node(2), kind());
        let new = [RequestedNode { given: "n", node: Some((&node, &kind)) }];
        let expected = format!("Nodes ['{}'] run on another instance than the cluster.", node.id);
        assert_eq!(cannot_add(&cluster(), &new), Some(expected.clone()));
        let old = [RequestedNode { given: "m", node: Some((&member, &kind)) }];
        assert_eq!(cannot_replace(&cluster(), &old, &new), Some(expected));
    }

    fn orphan(index: u32) -> Node {
        Node { status: NodeStatus::Active, ..sample::node(index).orphaned() }
    }

    #[test]
    fn orphans_that_work_can_be_added() {
        let (node, kind) = (orphan(1), kind());
        assert_eq!(cannot_add(&cluster(), &[RequestedNode { given: "a", node: Some((&node, &kind)) }]), None);
    }

    #[test]
    fn everything_that_keeps_nodes_out_is_named_in_order() {
        let (member, lame) = (sample::node(1), Node { status: NodeStatus::Error, ..orphan(2) });
        let (kind, other) = (kind(), ProfileType::new("other", "1.0"));
        let nodes = [
            RequestedNode { given: "x", node: None },
            RequestedNode { given: "m", node: Some((&member, &other)) },
            RequestedNode { given: "l", node: Some((&lame, &kind)) },
        ];
        let expected = format!(
            "Profile type of nodes ['{m}'] does not match that of the cluster.\n\
             Nodes ['{m}'] already owned by some cluster.\n\
             Nodes are not ACTIVE: ['{m}', '{l}'].\n\
             Nodes not found: ['x'].",
            m = member.id,
            l = lame.id
        );
        assert_eq!(cannot_add(&cluster(), &nodes), Some(expected));
    }

    #[test]
    fn only_members_can_be_removed() {
        let (member, stranger, kind) = (sample::node(1), orphan(2), kind());
        let cluster = member.cluster_id.unwrap();
        let found = |node| RequestedNode { given: "n", node: Some((node, &kind)) };
        assert_eq!(cannot_remove(cluster, &[found(&member)]), None);
        let words = format!("Nodes not members of specified cluster: ['{}'].", stranger.id);
        assert_eq!(cannot_remove(cluster, &[found(&stranger)]), Some(words));
    }

    #[test]
    fn members_are_replaced_by_orphans_that_work() {
        let (member, new, kind) = (sample::node(1), orphan(2), kind());
        let cluster = member.cluster_id.unwrap();
        let found = |node| RequestedNode { given: "n", node: Some((node, &kind)) };
        let about = &Cluster { id: cluster, name: "c".to_owned(), ..self::cluster() };
        assert_eq!(cannot_replace(about, &[found(&member)], &[found(&new)]), None);
        let words = cannot_replace(
            about,
            &[found(&new)],
            &[found(&member), RequestedNode { given: "x", node: None }],
        );
        let expected = format!(
            "The specified nodes ['{n}'] to be replaced are not members of the cluster c.\n\
             Nodes ['{m}'] already member of a cluster.\n\
             Nodes are not ACTIVE: ['{m}'].\n\
             Replacement nodes not found: ['x'].",
            n = new.id,
            m = member.id
        );
        assert_eq!(words, Some(expected));
    }
}
