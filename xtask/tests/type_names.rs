//! Type names are unique in the workspace, or listed in `xtask/type_names.toml` with a number that only shrinks.
//!
//! A reader who searches for a type should find one. Only declarations at the top level of files count: types inside
//! of functions are never imported. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;
use xtask::rust_tokens::{TokenKind, product_code};

/// The number of declarations of each name that has more than one.
type Counts = BTreeMap<String, usize>;

const TABLE: &str = "xtask/type_names.toml";

/// The folders with sources, below the top of the tree.
const SOURCES: [&str; 3] = ["crates", "bench", "xtask"];

/// The folders below them without product code, or with generated code.
const SKIPPED: [&str; 3] = ["tests", "target", "examples"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the top of the tree").to_owned()
}

/// The Rust files below a folder, without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !SKIPPED.contains(&name.as_ref()) {
            files.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
    files
}

/// The names of the types that a file declares at its top level, up to its test module.
fn declared_types(source: &str) -> BTreeSet<String> {
    let code = product_code(source);
    let (mut depth, mut names) = (0_usize, BTreeSet::new());
    for (token, next) in code.iter().zip(code.iter().skip(1)) {
        match (token.kind, token.text) {
            (TokenKind::Punct, "{") => depth += 1,
            (TokenKind::Punct, "}") => depth = depth.saturating_sub(1),
            (TokenKind::Ident, "struct" | "enum" | "trait" | "type")
                if depth == 0 && next.kind == TokenKind::Ident =>
            {
                names.insert(next.text.to_owned());
            }
            _ => {}
        }
    }
    names
}

/// The names with several declarations, counted by file.
fn repeated<'f>(files: impl Iterator<Item = &'f BTreeSet<String>>) -> Counts {
    let mut counts = Counts::new();
    for name in files.flatten() {
        *counts.entry(name.clone()).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    counts
}

/// The differences between the table and the sources, one line each.
fn differences(allowed: &Counts, found: &Counts) -> Vec<String> {
    let names: BTreeSet<&String> = allowed.keys().chain(found.keys()).collect();
    let line = |name: &String| match (
        found.get(name).copied().unwrap_or(1),
        allowed.get(name).copied().unwrap_or(1),
    ) {
        (found, allowed) if found > allowed => {
            Some(format!("{found} types are called {name}, {allowed} allowed: choose a more specific name"))
        }
        (found, allowed) if found < allowed => {
            Some(format!("{found} types are called {name}, {allowed} allowed: lower the number in {TABLE}"))
        }
        _ => None,
    };
    names.into_iter().filter_map(line).collect()
}

#[test]
fn type_names_are_unique_or_listed() {
    #[derive(serde::Deserialize)]
    struct Table {
        allowed: Counts,
    }
    let root = root();
    let table = fs::read_to_string(root.join(TABLE)).expect("the table");
    let Table { allowed } = toml::from_str(&table).expect("a table of numbers");
    let files: Vec<BTreeSet<String>> = SOURCES
        .iter()
        .flat_map(|folder| sources(&root.join(folder)))
        .map(|file| declared_types(&fs::read_to_string(file).expect("a source")))
        .collect();
    let differences = differences(&allowed, &repeated(files.iter()));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn only_declarations_at_the_top_level_before_the_tests_count() {
    let source = "pub struct A { b: u8 }\n// struct Comment\npub(crate) enum B<T> { C(T) }\nfn f() { struct Inner; }\n\
                  impl I for A { type Item = u8; }\ntype D = u8;\ntrait E {}\n#[cfg(test)]\nmod tests { }\nstruct Late;";
    let names: Vec<String> = declared_types(source).into_iter().collect();
    assert_eq!(names, ["A", "B", "D", "E"]);
}

#[rstest]
#[case::listed(2, 2, None)]
#[case::more(2, 3, Some("3 types are called Answer, 2 allowed: choose a more specific name"))]
#[case::fewer(3, 2, Some("2 types are called Answer, 3 allowed: lower the number in xtask/type_names.toml"))]
#[case::new(1, 2, Some("2 types are called Answer, 1 allowed: choose a more specific name"))]
fn a_number_may_neither_rise_nor_be_too_high(
    #[case] allowed: usize,
    #[case] found: usize,
    #[case] expected: Option<&str>,
) {
    let counts = |count| Counts::from([("Answer".to_owned(), count)]);
    assert_eq!(differences(&counts(allowed), &counts(found)), Vec::from_iter(expected.map(str::to_owned)));
}
