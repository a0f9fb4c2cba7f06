//! Documents name files that exist: paths in code spans, and the targets of links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use rstest::rstest;

/// The documents and folders of documents, below the top of the tree.
const DOCUMENTS: [&str; 5] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "bench/RESULTS.md", "docs"];

/// The folders of the sources that documents name.
const SOURCES: [&str; 5] = ["crates", "bench", "xtask", "testbed", "deploy"];

/// Names that stand for any module of a crate.
const PLACEHOLDERS: [&str; 2] = ["foo.rs", "mod.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the top of the tree").to_owned()
}

/// Lists the files below a path with this extension; all of them without one.
fn files(path: &Path, extension: Option<&str>) -> Vec<PathBuf> {
    if path.is_file() {
        let fits = extension.is_none_or(|extension| path.extension().is_some_and(|found| found == extension));
        return if fits { vec![path.to_owned()] } else { Vec::new() };
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries.filter(|path| !path.ends_with("target")).flat_map(|path| files(&path, extension)).collect()
}

/// Returns the Rust files that the code spans of a line name, without the item behind `::`.
fn named_sources(line: &str) -> Vec<&str> {
    let spans = line.split('`').skip(1).step_by(2);
    let paths = spans.map(|span| span.split("::").next().unwrap_or(span));
    let is_source = |path: &&str| {
        Path::new(path).extension().is_some_and(|extension| extension == "rs")
            && !path.contains(|letter: char| " <>{}*…".contains(letter))
    };
    paths.filter(is_source).collect()
}

/// Returns the files that the links of a line lead to.
fn linked_files(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or(target));
    files.filter(|file| !file.is_empty() && !file.contains("://")).collect()
}

/// Resolves `..` in a path without looking at the disk.
fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[test]
fn documents_name_files_that_exist() {
    let root = root();
    let sources: BTreeSet<PathBuf> =
        SOURCES.iter().flat_map(|folder| files(&root.join(folder), Some("rs"))).collect();
    let exists = |name: &str| {
        PLACEHOLDERS.contains(&name) || sources.iter().any(|source| source.ends_with(Path::new(name)))
    };
    let mut missing = Vec::new();
    for document in DOCUMENTS.iter().flat_map(|path| files(&root.join(path), Some("md"))) {
        let text = fs::read_to_string(&document).expect("a document");
        let folder = document.parent().expect("a folder");
        for (number, line) in text.lines().enumerate() {
            let sources = named_sources(line).into_iter().filter(|name| !exists(name));
            let links =
                linked_files(line).into_iter().filter(|file| !normalized(&folder.join(file)).exists());
            let place = document.strip_prefix(&root).unwrap_or(&document).display();
            missing.extend(sources.chain(links).map(|name| format!("{place}:{}: {name}", number + 1)));
        }
    }
    assert!(missing.is_empty(), "files that do not exist:\n{}", missing.join("\n"));
}

#[rstest]
#[case::path("see `engine/src/wait.rs`, which", &["engine/src/wait.rs"])]
#[case::item("`engine/src/wait.rs::wait`", &["engine/src/wait.rs"])]
#[case::several("| `a.rs` `run` | `b/c.rs` |", &["a.rs", "b/c.rs"])]
#[case::other("`docs/engine.md` and `crates/*/lib.rs`", &[])]
fn sources_are_found_in_code_spans(#[case] line: &str, #[case] expected: &[&str]) {
    assert_eq!(named_sources(line), expected);
}

#[rstest]
#[case::file("[a](engine.md#locks)", &["engine.md"])]
#[case::here("[a](#locks)", &[])]
#[case::elsewhere("[a](https://example.test/x.md)", &[])]
fn files_are_found_in_links(#[case] line: &str, #[case] expected: &[&str]) {
    assert_eq!(linked_files(line), expected);
}
