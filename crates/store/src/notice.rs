//! What replicas tell each other of a commit, as text.

use crate::transaction::Touched;

/// PostgreSQL refuses longer notices; a shortened one says less.
const LONGEST_PAYLOAD: usize = 7_000;

pub(crate) fn payload(touched: &[Touched]) -> String {
    let all = words(touched.iter());
    if all.len() <= LONGEST_PAYLOAD {
        return all;
    }
    // Whoever waits for an action looks again by itself; whoever watches clusters has nothing else to go by.
    let clusters = touched.iter().filter(|touched| matches!(touched, Touched::Cluster(_)));
    let fewer = words(clusters.chain(&[Touched::Work]));
    if fewer.len() <= LONGEST_PAYLOAD { fewer } else { word(&Touched::Work) }
}

fn words<'t>(touched: impl Iterator<Item = &'t Touched>) -> String {
    touched.map(word).collect::<Vec<_>>().join(" ")
}

fn word(touched: &Touched) -> String {
    match touched {
        Touched::Cluster(id) => format!("c:{id}"),
        Touched::Action(id) => format!("a:{id}"),
        Touched::Work => "work".to_owned(),
    }
}

fn touched_of(word: &str) -> Option<Touched> {
    match word.split_once(':') {
        Some(("c", id)) => id.parse().ok().map(Touched::Cluster),
        Some(("a", id)) => id.parse().ok().map(Touched::Action),
        _ => Some(Touched::Work),
    }
}

/// What a notice says.
pub(crate) fn touched_in(text: &str) -> impl Iterator<Item = Touched> {
    text.split(' ').filter_map(touched_of)
}

#[cfg(test)]
mod tests {
    use muster_core::ids::{ActionId, ClusterId};

    use super::*;

    #[test]
    fn a_notice_says_what_was_touched() {
        let id: ActionId = "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().unwrap();
        let text = payload(&[Touched::Action(id), Touched::Work]);
        let read: Vec<Touched> = touched_in(&text).collect();
        assert_eq!(read, [Touched::Action(id), Touched::Work]);
    }

    #[test]
    fn a_notice_that_is_too_long_still_wakes() {
        let id: ActionId = "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().unwrap();
        assert_eq!(payload(&[Touched::Action(id); 400]), "work");
        let cluster = Touched::Cluster(ClusterId::from_uuid(*id.as_uuid()));
        let text = payload(&[&[Touched::Action(id); 400][..], &[cluster]].concat());
        assert_eq!(touched_in(&text).collect::<Vec<_>>(), [cluster, Touched::Work], "watches are told");
        assert_eq!(payload(&[cluster; 400]), "work");
    }
}
