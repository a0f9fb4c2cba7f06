//! Selects nodes by the values of `--node`.

use muster_proto::v1alpha2::Node;

use crate::failure::{Exit, Failure};

/// The value that selects the head.
pub(super) const HEAD: &str = "head";

/// The value that selects all workers.
pub(super) const WORKERS: &str = "worker";

/// Returns the nodes that the values select, in the order of the list; all nodes if there are no values.
pub(super) fn chosen(nodes: &[Node], words: &[String]) -> Result<Vec<Node>, Failure> {
    let mut places = Vec::new();
    for word in words {
        let fitting = places_of(nodes, word);
        if fitting.is_empty() && word != WORKERS {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            let what = format!("node '{word}' not found: the nodes are {}", names.join(", "));
            return Err(Failure::new(Exit::NotFound, what));
        }
        places.extend(fitting);
    }
    let is_chosen = |place: &usize| words.is_empty() || places.contains(place);
    Ok((0..nodes.len()).filter(is_chosen).map(|place| nodes[place].clone()).collect())
}

fn places_of(nodes: &[Node], word: &str) -> Vec<usize> {
    let fitting = |fits: &dyn Fn(&Node) -> bool| {
        (0..nodes.len()).filter(|place| fits(&nodes[*place])).collect::<Vec<usize>>()
    };
    let named = fitting(&|node| node.name == word || node.id == word);
    if !named.is_empty() {
        return named;
    }
    let workers = fitting(&|node| node.role != HEAD);
    match word {
        HEAD => fitting(&|node| node.role == HEAD),
        WORKERS => workers,
        number if workers.iter().any(|place| number_of(&nodes[*place]).is_some()) => {
            fitting(&|node| node.role != HEAD && number_of(node) == Some(number))
        }
        number => {
            let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            number.and_then(|place| workers.get(place).copied()).into_iter().collect()
        }
    }
}

/// Returns the number in a worker's name: names that Muster chose end with `worker` or the group, and a number.
fn number_of(node: &Node) -> Option<&str> {
    let (before, number) = node.name.rsplit_once('-')?;
    let among = before.rsplit_once('-').is_some_and(|(_, last)| last == WORKERS)
        || (!node.group_name.is_empty() && before.ends_with(&format!("-{}", node.group_name)));
    (among && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())).then_some(number)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(name: &str, role: &str) -> Node {
        Node { id: format!("id-{name}"), name: name.to_owned(), role: role.to_owned(), ..Node::default() }
    }

    #[rstest]
    #[case(&[], &["fred-head", "a", "b"])]
    #[case(&["head"], &["fred-head"])]
    #[case(&["worker"], &["a", "b"])]
    #[case(&["2"], &["b"])]
    #[case(&["b", "head"], &["fred-head", "b"])]
    #[case(&["id-a", "a"], &["a"])]
    fn values_select_nodes(#[case] words: &[&str], #[case] expected: &[&str]) {
        let nodes = [node("fred-head", "head"), node("a", "worker"), node("b", "worker")];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let names: Vec<String> = chosen(&nodes, &words).unwrap().into_iter().map(|node| node.name).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_number_selects_the_worker_with_that_number_in_its_name() {
        let grouped = |name: &str, group: &str| Node { group_name: group.to_owned(), ..node(name, "worker") };
        let nodes = [
            node("fred-head", "head"),
            grouped("fred-worker-2", "default"),
            grouped("fred-worker-4", "default"),
        ];
        let names = |word: &str| chosen(&nodes, &[word.to_owned()]).map(|nodes| nodes[0].name.clone()).ok();
        assert_eq!(names("2").as_deref(), Some("fred-worker-2"));
        assert_eq!(names("1"), None, "not the first one");
        let nodes = [grouped("fred-slow-1", "slow"), grouped("fred-fast-1", "fast")];
        assert_eq!(chosen(&nodes, &["1".to_owned()]).unwrap().len(), 2);
    }

    #[rstest]
    #[case("3")]
    #[case("0")]
    #[case("x")]
    fn an_unknown_node_is_refused_with_the_names_of_all(#[case] word: &str) {
        let nodes = [node("fred-head", "head"), node("a", "worker")];
        let refused = chosen(&nodes, &[word.to_owned()]).unwrap_err();
        assert_eq!(refused.exit, Exit::NotFound);
        assert_eq!(refused.what, format!("node '{word}' not found: the nodes are fred-head, a"));
    }

    #[test]
    fn a_cluster_may_have_no_workers_yet() {
        let chosen = chosen(&[node("fred-head", "head")], &["worker".to_owned()]).unwrap();
        assert!(chosen.is_empty());
    }
}
