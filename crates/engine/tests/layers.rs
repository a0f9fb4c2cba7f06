//! The folders of the engine are layers: a module imports only from its own layer or from one below.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the ground up. Modules of one line may not import each other, except inside a folder.
const LAYERS: &[&[&str]] = &[
    &["ids", "config", "metrics", "notify", "supervise"],
    &["events"],
    &["ports"],
    &["action_data"],
    &["intent"],
    &["policy"],
    &["lease", "liveness"],
    &["context"],
    &["run"],
    &["reconcile"],
    &["actions", "admission"],
    &["scheduler", "watchers", "queries", "wait"],
    &["start"],
];

#[test]
fn imports_point_down_only() {
    let mut upward = Vec::new();
    for (file, module) in sources() {
        let from = layer_of(&module).unwrap_or_else(|| panic!("{module} ({file}) has no layer: add it"));
        let text = fs::read_to_string(source_folder().join(&file)).expect("a source file");
        assert!(!leaves_crate_root(&file, &text), "{file} names the crate's root by `super`: use `crate::`");
        for imported in imports(&text) {
            let Some(to) = layer_of(&imported) else {
                upward.push(format!("{file} imports crate::{imported} from lib.rs: name its module"));
                continue;
            };
            if imported != module && to >= from {
                upward.push(format!("{file} imports crate::{imported}, which is not below {module}"));
            }
        }
    }
    assert!(upward.is_empty(), "{}", upward.join("\n"));
}

/// The metric of held duties is set where duties are taken.
#[test]
fn duties_are_taken_only_by_the_context() {
    let takes = |file: &String| {
        let text = fs::read_to_string(source_folder().join(file)).expect("a source file");
        text.contains("take_duty(")
    };
    let files: Vec<String> = sources().into_iter().map(|(file, _)| file).filter(takes).collect();
    assert_eq!(files, ["context.rs"], "call `Context::holds_duty` instead");
}

#[test]
fn an_upward_import_is_found() {
    assert!(layer_of("policy") < layer_of("actions"));
    let text =
        "use crate::{actions::resize, ports::clock};\nfn f() { crate::scheduler::run(); } // crate::start";
    let found = imports(text);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["actions", "ports", "scheduler"]);
}

#[test]
fn a_path_that_leaves_its_top_level_module_by_super_is_found() {
    assert!(leaves_crate_root("policy.rs", "use super::actions::resize;"));
    assert!(leaves_crate_root("policy/batch.rs", "use super::super::actions::resize;"));
    assert!(!leaves_crate_root("policy/batch.rs", "use super::Settings; // super::super::x"));
    assert!(!leaves_crate_root("policy/batch/plan.rs", "mod tests { use super::super::x; }"));
    assert!(leaves_crate_root("policy.rs", "use super::start::run;\nmod tests { use super::*; }"));
    assert!(!leaves_crate_root("policy.rs", "mod tests { use super::*; }"));
    assert!(leaves_crate_root("policy.rs", "mod tests { use super::super::start; }"));
}

/// Returns true if a file names a module outside its top-level module by `super`; a module of tests at its end is one
/// deeper.
fn leaves_crate_root(file: &str, text: &str) -> bool {
    let depth = file.split('/').count();
    let (code, tests) = text.split_once("mod tests {").unwrap_or((text, ""));
    let leaves = |text: &str, depth: usize| {
        let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        code.contains(&"super::".repeat(depth))
    };
    leaves(code, depth) || leaves(tests, depth + 1)
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file, with the top-level module that it belongs to; `lib.rs` declares them all and is none of them.
fn sources() -> Vec<(String, String)> {
    let root = source_folder();
    let mut open = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let file = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            let module = file.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
            if module != "lib" {
                found.push((file, module));
            }
        }
    }
    assert!(found.len() > 50, "the sources were not found");
    found
}

/// The top-level modules that a file names by `crate::…`, in imports and elsewhere, but not in comments.
fn imports(text: &str) -> BTreeSet<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        if let Some(group) = rest.strip_prefix('{') {
            names.extend(group_items(group).iter().filter_map(|item| first_name(item)));
        } else {
            names.extend(first_name(rest));
        }
    }
    names
}

/// The items of `{a::{b, c}, d}`, after its opening brace.
fn group_items(group: &str) -> Vec<String> {
    let (mut depth, mut items) = (0, vec![String::new()]);
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(letter);
        }
    }
    items
}

fn first_name(path: &str) -> Option<String> {
    let name: String = path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}
