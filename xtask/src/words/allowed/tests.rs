use rstest::rstest;

use super::*;

fn hits(path: &str, lines: &[usize]) -> BTreeMap<String, Vec<Hit>> {
    let hit = |line: &usize| Hit { line: *line, found: "old".to_owned(), instead: "new" };
    let found: Vec<Hit> = lines.iter().map(hit).collect();
    if found.is_empty() { BTreeMap::new() } else { BTreeMap::from([(path.to_owned(), found)]) }
}

fn allowed(numbers: &[(&str, usize)]) -> Allowed {
    Allowed { allowed: numbers.iter().map(|(path, number)| ((*path).to_owned(), *number)).collect() }
}

#[rstest]
#[case::as_many(&[("a.rs", 2)], &[3, 9], &[])]
#[case::none(&[], &[], &[])]
#[case::more(&[("a.rs", 1)], &[3, 9], &[
    "a.rs:3: \"old\": write new",
    "a.rs:9: \"old\": write new",
    "a.rs: 2 retired words, 1 allowed",
])]
#[case::new_file(&[], &[3], &["a.rs:3: \"old\": write new", "a.rs: 1 retired words, 0 allowed"])]
#[case::fewer(&[("a.rs", 2)], &[3], &[
    "a.rs: 1 retired words, 2 allowed: lower the number: cargo xtask lint --update-words",
])]
#[case::clean(&[("a.rs", 2)], &[], &[
    "a.rs: 0 retired words, 2 allowed: lower the number: cargo xtask lint --update-words",
])]
fn a_number_that_differs_is_a_problem(
    #[case] numbers: &[(&str, usize)],
    #[case] lines: &[usize],
    #[case] expected: &[&str],
) {
    assert_eq!(compare(&allowed(numbers), &hits("a.rs", lines)), expected);
}

#[rstest]
#[case::lowered(&[("a.rs", 5)], &[1, 2], &[("a.rs", 2)])]
#[case::not_raised(&[("a.rs", 1)], &[1, 2], &[("a.rs", 1)])]
#[case::not_added(&[], &[1], &[])]
#[case::removed(&[("a.rs", 1), ("b.rs", 1)], &[1], &[("a.rs", 1)])]
fn an_update_only_lowers(
    #[case] before: &[(&str, usize)],
    #[case] lines: &[usize],
    #[case] after: &[(&str, usize)],
) {
    assert_eq!(allowed(before).lowered(&hits("a.rs", lines)), allowed(after));
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let table = allowed(&[("a/b.rs", 3), ("c.md", 1)]);
    let read: Allowed = toml::from_str(&table.to_string()).unwrap();
    assert_eq!(read, table);
}
