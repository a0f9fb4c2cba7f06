use std::collections::BTreeSet;

use clap::CommandFactory as _;

use super::*;

fn keys_of(text: &str) -> BTreeSet<String> {
    let key = |line: &str| {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let (key, _) = line.split_once(" = ")?;
        key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then(|| key.to_owned())
    };
    // Keys in tables are not flags.
    text.lines().take_while(|line| !line.contains("# [")).filter_map(key).collect()
}

#[test]
fn the_printed_file_is_the_default() {
    assert_eq!(toml::from_str::<ServerSettings>(DEFAULT_FILE).unwrap(), ServerSettings::default());
}

#[test]
fn every_flag_is_a_key_and_a_variable() {
    let flags: BTreeSet<String> = Flags::command()
        .get_arguments()
        .filter(|argument| argument.get_id() != "config")
        .map(|argument| {
            let name = argument.get_id().to_string();
            let variable = argument.get_env().map(|name| name.to_string_lossy().into_owned());
            // `MUSTER_NAMESPACE` is the namespace that commands use.
            let expected = match name.as_str() {
                "namespace" => "MUSTER_SERVE_NAMESPACES".to_owned(),
                name => format!("MUSTER_{}", name.to_uppercase()),
            };
            assert_eq!(variable, Some(expected), "the variable of --{name}");
            name
        })
        .collect();
    assert_eq!(keys_of(DEFAULT_FILE), flags);
}

#[test]
fn an_unknown_key_is_named_in_the_error() {
    let error = toml::from_str::<ServerSettings>("lisen = \"127.0.0.1:1\"").unwrap_err().to_string();
    assert!(error.contains("lisen"), "{error}");
}

#[test]
fn development_mode_listens_on_loopback_only() {
    let settings =
        ServerSettings { dev: true, listen: "0.0.0.0:8888".parse().unwrap(), ..ServerSettings::default() };
    let error = settings.check().unwrap_err().to_string();
    assert!(error.contains("0.0.0.0:8888") && error.contains("loopback"), "{error}");
}

#[test]
fn a_given_scheme_replaces_the_default() {
    let dev = ServerSettings { dev: true, ..ServerSettings::default() };
    assert_eq!(dev.schemes(), ["none"]);
    assert_eq!(ServerSettings::default().schemes(), ["local"]);
    assert_eq!(ServerSettings { auth: vec!["tokens:x".into()], ..dev }.schemes(), ["tokens:x"]);
}

#[test]
fn no_two_projects_share_a_namespace() {
    let read = |text: &str| toml::from_str::<ServerSettings>(text);
    let table: String = DEFAULT_FILE
        .lines()
        .skip_while(|line| !line.contains("[project_namespaces]"))
        .fold(String::new(), |all, line| format!("{all}{}\n", line.trim_start_matches("# ")));
    let projects = read(&table).unwrap().project_namespaces;
    assert_eq!(projects.namespace_of("demo"), Some("team-a"), "as the printed file shows it");
    let error = read("[project_namespaces]\na = 'n'\nb = 'n'").unwrap_err().to_string();
    assert!(error.contains("both have namespace 'n'"), "{error}");
}

#[test]
fn authentication_by_kubernetes_needs_a_kubernetes() {
    let settings = ServerSettings { auth: vec!["kubernetes".into()], ..ServerSettings::default() };
    let error = settings.check().unwrap_err().to_string();
    assert_eq!(error, "auth is 'kubernetes', but no Kubernetes is configured: set kubeconfig or in_cluster");
    ServerSettings { in_cluster: true, ..settings }.check().unwrap();
}

#[test]
fn shapes_have_unique_names_and_amounts() {
    let read = |text: &str| toml::from_str::<ServerSettings>(text).unwrap();
    let table: String = DEFAULT_FILE
        .lines()
        .skip_while(|line| !line.contains("[["))
        .take_while(|line| !line.is_empty())
        .fold(String::new(), |all, line| format!("{all}{}\n", line.trim_start_matches("# ")));
    let shapes = read(&table).shape;
    assert_eq!((shapes.len(), shapes[0].name.as_str()), (1, "small"), "as the printed file shows it");
    for (text, why) in [
        ("[[shape]]\nname = 'a'", "shape 'a' is empty"),
        ("[[shape]]\nname = 'a=b'\ncpu = 1", "must not be empty or have '=' or ','"),
        ("[[shape]]\nname = 'a'\ncpu = 1\n[[shape]]\nname = 'a'\ngpu = 1", "two shapes are named 'a'"),
    ] {
        let error = read(text).check().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_relative_data_folder_is_made_absolute() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("muster.toml");
    let file_name = file.to_str().unwrap();
    let expected = std::env::current_dir().unwrap().join("relative/data");
    for (text, flags) in [("data_dir = 'relative/data'", &[][..]), ("", &["--data-dir", "relative/data"][..])]
    {
        std::fs::write(&file, text).unwrap();
        let arguments = ["serve", "--config", file_name].into_iter().chain(flags.iter().copied());
        let settings = Flags::try_parse_from(arguments).unwrap().resolve().unwrap();
        assert_eq!(settings.data_dir, expected);
    }
}
