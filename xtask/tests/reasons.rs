//! `docs/reasons.md` has a row for every reason and error code, and no other row.
//!
//! Codes are found in the source by the few forms in which it names them, listed below for each area. A code must be a
//! literal or a constant: a code that is composed at run time is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;
use xtask::rust_tokens::{Token, TokenKind, product_code};

/// A form in which code names a reason: tokens, with `$` for the reason and `_` for any identifier.
type Form = &'static [&'static str];

const CONSTANT: Form = &["const", "_", ":", "&", "str", "=", "$"];
const CODE: Form = &[".", "code", "(", "$"];
const PERMANENT: Form = &["permanent", "(", "$"];
const TRANSIENT: Form = &["transient", "(", "$"];
const STATUS: Form = &["StatusCode", ":", ":", "_", ",", "$"];
const CONFLICT: Form = &["conflict", "(", "$"];
const ARM: Form = &["=", ">", "$", ","];

/// A source of the reasons of an area, below `crates/`: a file or a folder, the parts of it that belong to another
/// area, and the forms there.
type Source = (&'static str, &'static [&'static str], &'static [Form]);

/// A heading of the document, with the spelling and the sources of its reasons.
struct Area {
    heading: &'static str,
    spelling: fn(&str) -> bool,
    sources: &'static [Source],
}

const AREAS: &[Area] = &[
    Area {
        heading: "Events",
        spelling: is_pascal_case,
        sources: &[
            ("engine/src/events.rs", &[], &[CONSTANT]),
            ("service/src", &[], &[CONSTANT, &["Written", ":", ":", "_", ",", "$"]]),
        ],
    },
    Area {
        heading: "Error codes",
        spelling: is_pascal_case,
        sources: &[
            ("api/src", &["api/src/clustering", "api/src/scaler"], &[CONSTANT, CODE]),
            ("api/src/error.rs", &[], &[&["=", "$", ",", "_", ",", "_", ";"], &["new", "(", "$"]]),
            ("service/src", &[], &[CODE]),
            ("core/src/ephemeral.rs", &[], &[&["_", "=", "$", ","]]),
        ],
    },
    Area {
        heading: "Of every provider",
        spelling: is_pascal_case,
        sources: &[("engine/src", &["engine/src/events.rs"], &[CONSTANT, PERMANENT, TRANSIENT])],
    },
    Area {
        heading: "On this machine",
        spelling: is_pascal_case,
        sources: &[("local/src", &[], &[PERMANENT, TRANSIENT])],
    },
    Area {
        heading: "On Kubernetes",
        spelling: is_pascal_case,
        sources: &[("kube/src", &[], &[CONSTANT, PERMANENT, TRANSIENT])],
    },
    Area {
        heading: "Clustering API",
        spelling: is_pascal_case,
        sources: &[
            ("api/src/clustering", &[], &[STATUS, CONFLICT]),
            ("api/src/clustering/senlin_error.rs", &[], &[ARM]),
        ],
    },
    Area {
        heading: "Scaler API",
        spelling: is_snake_case,
        sources: &[
            ("api/src/scaler", &[], &[STATUS, CONFLICT, &["bad", "(", "$"]]),
            ("api/src/scaler/scaler_error.rs", &[], &[ARM, &["=", ">", "{", "$", "}"]]),
        ],
    },
    Area {
        heading: "Machines",
        spelling: is_pascal_case,
        sources: &[
            ("machines/src/run/report.rs", &[], &[&["EventType", ":", ":", "_", ",", "$"], CONSTANT]),
            ("machines/src/types/conditions.rs", &[], &[CONSTANT]),
            ("machines/src/decide/reservations/status.rs", &[], &[&["=", ">", "(", "$"]]),
        ],
    },
];

/// The area whose reasons every provider may give; they have no second row.
const COMMON: &str = "Of every provider";
const PROVIDERS: [&str; 2] = ["On this machine", "On Kubernetes"];

fn is_pascal_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

fn is_snake_case(text: &str) -> bool {
    text.contains('_') && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        || ["conflict", "unauthenticated", "unauthorized", "unavailable"].contains(&text)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the top of the tree").to_owned()
}

/// The sources below a path, without tests.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let below = entries.flat_map(|entry| files(&entry.expect("an entry").path()));
    below
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter(|file| {
            !file.components().any(|part| ["tests", "tests.rs"].iter().any(|test| part.as_os_str() == *test))
        })
        .collect()
}

/// The token for `$` if a form matches at the beginning.
fn matched<'s>(code: &[Token<'s>], form: Form) -> Option<Token<'s>> {
    let mut captured = None;
    for (at, part) in form.iter().enumerate() {
        let token = code.get(at)?;
        let fits = match *part {
            "$" => {
                captured = Some(*token);
                matches!(token.kind, TokenKind::Text | TokenKind::Ident)
            }
            "_" => token.kind == TokenKind::Ident,
            text => token.text == text && token.kind != TokenKind::Text,
        };
        if !fits {
            return None;
        }
    }
    captured
}

/// The values of constants by name; several if several files have one of that name.
type Constants = BTreeMap<String, BTreeSet<String>>;

fn constants(code: &[Token<'_>]) -> Constants {
    let mut constants = Constants::new();
    for at in 0..code.len() {
        if let Some(value) = matched(&code[at..], CONSTANT).filter(|value| value.kind == TokenKind::Text) {
            constants.entry(code[at + 1].text.to_owned()).or_default().insert(value.text.to_owned());
        }
    }
    constants
}

/// The reasons that a file names in one of the forms.
fn reasons(code: &[Token<'_>], forms: &[Form], everywhere: &Constants) -> Result<BTreeSet<String>, String> {
    let own = constants(code);
    let mut found = BTreeSet::new();
    for at in 0..code.len() {
        for token in forms.iter().filter_map(|form| matched(&code[at..], form)) {
            let is_constant = token.text.contains(|c: char| c.is_ascii_uppercase())
                && !token.text.contains(|c: char| c.is_ascii_lowercase());
            if token.kind == TokenKind::Text {
                found.insert(token.text.to_owned());
            } else if is_constant {
                let values = own.get(token.text).or_else(|| everywhere.get(token.text));
                match values.map(Vec::from_iter).as_deref() {
                    Some([value]) => found.insert((*value).clone()),
                    other => return Err(format!("line {}: {} is {other:?}", token.line, token.text)),
                };
            }
        }
    }
    Ok(found)
}

fn named_by(area: &Area, everywhere: &Constants) -> BTreeSet<String> {
    let crates = root().join("crates");
    let mut named = BTreeSet::new();
    for (path, without, forms) in area.sources {
        for file in files(&crates.join(path)) {
            let is_other = |other: &&str| {
                file.starts_with(crates.join(other)) || file == crates.join(format!("{other}.rs"))
            };
            if without.iter().any(is_other) {
                continue;
            }
            let source = fs::read_to_string(&file).expect("a source file");
            let found = reasons(&product_code(&source), forms, everywhere);
            let found = found.unwrap_or_else(|why| panic!("{}: {why}", file.display()));
            named.extend(found.into_iter().filter(|reason| (area.spelling)(reason)));
        }
    }
    named
}

/// The documented reasons by the heading above their rows; panics if a row lacks the explanation or the remedy.
fn documented(document: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut rows = BTreeMap::<String, BTreeSet<String>>::new();
    let mut heading = String::new();
    for line in document.lines() {
        if let Some(text) = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')) {
            text.clone_into(&mut heading);
        }
        let Some(rest) = line.strip_prefix("| `") else { continue };
        let (reason, cells) = rest.split_once("` |").unwrap_or_else(|| panic!("one reason a row: {line}"));
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let filled = cells.iter().filter(|cell| !cell.is_empty()).count();
        assert!(filled >= 2, "{reason} has no explanation or no remedy: {line}");
        assert!(rows.entry(heading.clone()).or_default().insert(reason.to_owned()), "{reason} has two rows");
    }
    rows
}

#[test]
fn every_reason_and_error_code_has_a_row_and_every_row_a_reason() {
    let mut everywhere = Constants::new();
    for file in files(&root().join("crates")) {
        let source = fs::read_to_string(&file).expect("a source file");
        for (name, values) in constants(&product_code(&source)) {
            everywhere.entry(name).or_default().extend(values);
        }
    }
    let mut named: BTreeMap<String, BTreeSet<String>> =
        AREAS.iter().map(|area| (area.heading.to_owned(), named_by(area, &everywhere))).collect();
    let common = named[COMMON].clone();
    for provider in PROVIDERS {
        named
            .entry(provider.to_owned())
            .and_modify(|reasons| reasons.retain(|reason| !common.contains(reason)));
    }
    let document = fs::read_to_string(root().join("docs/reasons.md")).expect("the document");
    let documented = documented(&document);
    let mut problems = Vec::new();
    for area in AREAS {
        let (none, heading) = (BTreeSet::new(), area.heading);
        let rows = documented.get(heading).unwrap_or(&none);
        let without_row = named[heading].difference(rows);
        problems.extend(without_row.map(|reason| format!("{heading}: {reason} has no row")));
        let without_reason = rows.difference(&named[heading]);
        problems.extend(
            without_reason.map(|reason| format!("{heading}: nothing names {reason}: remove its row")),
        );
    }
    assert!(problems.is_empty(), "docs/reasons.md:\n{}", problems.join("\n"));
}

#[rstest]
#[case::literal(r#"x.code("A")"#, CODE, &["A"])]
#[case::own_constant(r#"const B: &str = "A"; x.code(B)"#, CODE, &["A"])]
#[case::constant_elsewhere("x.code(ELSEWHERE)", CODE, &["Far"])]
#[case::over_lines("f(\n  StatusCode::GONE,\n  \"A\"\n)", STATUS, &["A"])]
#[case::variable("x.code(given)", CODE, &[])]
#[case::comment(r#"// x.code("A")"#, CODE, &[])]
#[case::inline_tests(r#"#[cfg(test)] mod tests { x.code("A") }"#, CODE, &[])]
#[case::tests_in_a_file(r#"#[cfg(test)] mod tests; x.code("A")"#, CODE, &["A"])]
#[case::other_call(r#"x.decode("A")"#, CODE, &[])]
fn reasons_are_found_where_code_names_them(
    #[case] source: &str,
    #[case] form: Form,
    #[case] expected: &[&str],
) {
    let everywhere = BTreeMap::from([("ELSEWHERE".to_owned(), BTreeSet::from(["Far".to_owned()]))]);
    let found = reasons(&product_code(source), &[form], &everywhere).unwrap();
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
