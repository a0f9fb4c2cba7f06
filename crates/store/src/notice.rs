//! The text of the notifications by which replicas announce their commits.

use crate::transaction::Touched;

/// The longest payload: PostgreSQL refuses notices of 8,000 bytes. A longer one is replaced by [`Touched::Everything`].
const LONGEST_PAYLOAD: usize = 7_000;

pub(crate) fn payload(touched: &[Touched]) -> String {
    let words: Vec<String> = touched.iter().map(word).collect();
    let text = words.join(" ");
    if text.len() <= LONGEST_PAYLOAD { text } else { word(&Touched::Everything) }
}

fn word(touched: &Touched) -> String {
    match touched {
        Touched::Cluster(id) => format!("c:{id}"),
        Touched::Action(id) => format!("a:{id}"),
        Touched::Progress(id) => format!("p:{id}"),
        Touched::Work => "work".to_owned(),
        Touched::Tasks => "tasks".to_owned(),
        Touched::Task(id) => format!("t:{id}"),
        Touched::Apps => "apps".to_owned(),
        Touched::Everything => "everything".to_owned(),
    }
}

fn touched_of(word: &str) -> Option<Touched> {
    match word.split_once(':') {
        Some(("c", id)) => id.parse().ok().map(Touched::Cluster),
        Some(("a", id)) => id.parse().ok().map(Touched::Action),
        Some(("p", id)) => id.parse().ok().map(Touched::Progress),
        Some(("t", id)) => id.parse().ok().map(Touched::Task),
        _ if word == "work" => Some(Touched::Work),
        _ if word == "tasks" => Some(Touched::Tasks),
        _ if word == "apps" => Some(Touched::Apps),
        // Includes words of a newer replica that are not known here.
        _ => Some(Touched::Everything),
    }
}

/// The content of a notice.
pub(crate) fn touched_in(text: &str) -> impl Iterator<Item = Touched> {
    text.split(' ').filter_map(touched_of)
}

#[cfg(test)]
mod tests {
    use muster_core::ids::{ActionId, TaskId};

    use super::*;

    #[test]
    fn a_notice_says_what_was_touched() {
        let id: ActionId = "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().unwrap();
        let task = TaskId::from_uuid(*id.as_uuid());
        let sent = [
            Touched::Action(id),
            Touched::Progress(id),
            Touched::Work,
            Touched::Tasks,
            Touched::Task(task),
            Touched::Apps,
        ];
        let read: Vec<Touched> = touched_in(&payload(&sent)).collect();
        assert_eq!(read, sent);
    }

    #[test]
    fn a_notice_that_is_too_long_wakes_all_subscribers() {
        let id: ActionId = "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().unwrap();
        let text = payload(&[Touched::Action(id); 400]);
        assert_eq!(touched_in(&text).collect::<Vec<_>>(), [Touched::Everything]);
    }
}
