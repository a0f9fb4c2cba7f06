//! Compares the numbers of fields and the routes with snapshots, since clients rely on them.
//!
//! After an intended change: `MUSTER_BLESS=1 cargo test -p muster-proto --test wire`.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use muster_proto::descriptor::POOL;
use muster_proto::rest::METHODS;
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

fn compare(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if env::var_os("MUSTER_BLESS").is_some() {
        fs::write(&path, actual).expect("the snapshot can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<String> = expected
        .lines()
        .filter(|line| !actual.lines().any(|other| other == *line))
        .map(|line| format!("- {line}"))
        .chain(
            actual
                .lines()
                .filter(|line| !expected.lines().any(|other| other == *line))
                .map(|line| format!("+ {line}")),
        )
        .collect();
    assert!(expected == actual, "the wire is not what tests/snapshots/{name} says:\n{}", changed.join("\n"));
}

fn kind(field: &FieldDescriptor) -> String {
    let name = match field.kind() {
        Kind::Message(message) if field.is_map() => {
            let (key, value) = (message.map_entry_key_field(), message.map_entry_value_field());
            return format!("map<{}, {}>", kind(&key), kind(&value));
        }
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(words) => words.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    };
    match field.cardinality() {
        Cardinality::Repeated => format!("repeated {name}"),
        _ if field.supports_presence() && !matches!(field.kind(), Kind::Message(_)) => {
            format!("optional {name}")
        }
        _ => name,
    }
}

fn message_rows(message: &MessageDescriptor) -> String {
    let name = message.full_name();
    let mut rows = String::new();
    for field in message.fields() {
        let _ = writeln!(rows, "{name}.{} = {} {}", field.name(), field.number(), kind(&field));
    }
    if rows.is_empty() { format!("{name} has no fields\n") } else { rows }
}

fn enum_rows(words: &EnumDescriptor) -> String {
    let mut rows = String::new();
    for value in words.values() {
        let _ = writeln!(rows, "{} = {}", value.full_name(), value.number());
    }
    rows
}

#[test]
fn every_number_is_as_it_was() {
    let ours = |name: &str| name.starts_with("muster.");
    let messages = POOL.all_messages().filter(|message| ours(message.full_name()) && !message.is_map_entry());
    let enums = POOL.all_enums().filter(|words| ours(words.full_name()));
    let mut rows: Vec<String> =
        messages.map(|message| message_rows(&message)).chain(enums.map(|words| enum_rows(&words))).collect();
    rows.sort_unstable();
    compare("numbers.txt", &rows.concat());
}

#[test]
fn every_route_is_as_it_was() {
    let mut rows = String::new();
    for method in METHODS {
        let stream = if method.streaming { " stream" } else { "" };
        for rule in method.rules {
            let _ =
                writeln!(rows, "{} {} {:?} -> {}{stream}", rule.verb, rule.path, rule.body, method.grpc_path);
        }
    }
    compare("routes.txt", &rows);
}

#[test]
fn every_method_and_field_has_a_comment() {
    let undocumented: Vec<String> = POOL
        .files()
        .filter(|file| file.package_name().starts_with("muster"))
        .flat_map(|file| {
            let file = file.file_descriptor_proto().clone();
            let commented: Vec<Vec<i32>> = file
                .source_code_info
                .iter()
                .flat_map(|info| &info.location)
                .filter(|location| !location.leading_comments().is_empty())
                .map(|location| location.path.clone())
                .collect();
            // Numbers of descriptor.proto: 4 is a message and 2 its field; 6 is a service and 2 its method.
            let fields = file.message_type.iter().enumerate().flat_map(|(at, message)| {
                message.field.iter().enumerate().map(move |(nth, field)| {
                    (vec![4, index(at), 2, index(nth)], format!("{}.{}", message.name(), field.name()))
                })
            });
            let methods = file.service.iter().enumerate().flat_map(|(at, service)| {
                service.method.iter().enumerate().map(move |(nth, method)| {
                    (vec![6, index(at), 2, index(nth)], format!("{}.{}", service.name(), method.name()))
                })
            });
            let missing = fields.chain(methods).filter(|(path, _)| !commented.contains(path));
            missing.map(|(_, name)| name).collect::<Vec<_>>()
        })
        .collect();
    assert!(undocumented.is_empty(), "without a comment: {undocumented:?}");
}

fn index(at: usize) -> i32 {
    i32::try_from(at).expect("files are short")
}
