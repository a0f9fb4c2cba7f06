//! `muster framework`: what is there, and how it gets there.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::home::{Home, PATIENCE, run};

/// A program that does as told, in a folder of its own. Another process writes it: a file that is open for writing, be
/// it in a process that another test is just starting, cannot be run.
fn program(home: &Home, name: &str, script: &str) -> PathBuf {
    let folder = home.data().with_file_name("programs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(name);
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#;
    let written = Command::new("sh").args(["-c", write, "sh", script]).arg(&file).status();
    assert!(written.expect("sh runs").success());
    file
}

/// The same as the only `python3` of a command.
fn with_python3(home: &Home, arguments: &[&str], script: &str) -> Command {
    let folder = program(home, "python3", script).parent().map(Path::to_owned).expect("a folder");
    let others = std::env::var("PATH").expect("PATH");
    let mut command = home.command(arguments);
    command.env("PATH", format!("{}:{others}", folder.display()));
    command
}

/// A Java of this version, as the only one of a command.
fn with_java(home: &Home, arguments: &[&str], version: u32) -> Command {
    let folder = home.data().with_file_name("programs");
    std::fs::create_dir_all(folder.join("bin")).expect("a folder");
    let said = format!("  java.home = {}\\n  java.specification.version = {version}\\n", folder.display());
    program(home, "bin/java", &format!("printf '{said}' >&2"));
    let mut command = home.command(arguments);
    command.env("JAVA_HOME", &folder).env("PATH", &folder);
    command
}

fn dask(list: &Value) -> &Value {
    let frameworks = list["frameworks"].as_array().expect("a list");
    frameworks.iter().find(|framework| framework["name"] == "dask").expect("Dask is known")
}

#[tokio::test]
async fn dask_is_installed_once_and_the_next_cluster_runs_in_it() {
    if !muster_testkit::package_index().await {
        return;
    }
    let home = Home::new();
    let early = home.muster(&["create", "early"]);
    assert_eq!(early.code, 3, "{early:?}");
    assert!(early.err.contains("`muster framework install dask` installs it"), "{early:?}");
    assert_eq!(home.muster(&["get", "early"]).code, 4, "nothing is stored");
    let before = home.announced().unwrap()["pid"].clone();

    let said = home.muster(&["framework", "install", "dask"]).done();
    assert!(said.err.contains("dask: making a Python environment in "), "{said:?}");
    assert!(said.err.contains("dask: Collecting distributed=="), "{said:?}");
    assert!(said.out.starts_with("dask 20") && said.out.contains(" is installed: "), "{said:?}");
    let again = home.muster(&["framework", "install", "dask"]).done();
    assert!(again.out.starts_with("dask 20") && again.out.contains(" is there already: "), "{again:?}");
    let list = home.muster(&["framework", "list", "-o", "json"]).done().json();
    assert_eq!(
        (&dask(&list)["usable"], &dask(&list)["source"]),
        (&true.into(), &"installed by Muster".into())
    );
    let interpreter = dask(&list)["interpreter"].as_str().unwrap();
    assert!(Path::new(interpreter).starts_with(home.data()), "{list}");

    home.muster(&["create", "fred"]).done();
    let processes = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
    assert!(processes.lines().any(|line| line.starts_with(interpreter)), "no process runs in {interpreter}");
    assert_eq!(home.announced().unwrap()["pid"], before, "it is the same server");
    home.muster(&["delete", "fred"]).done();
}

#[test]
fn a_list_says_what_is_missing_and_what_to_type() {
    let home = Home::new();
    let said = run(&mut with_java(&home, &["framework", "list"], 17)).done();
    let lines: Vec<Vec<&str>> = said.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [
            vec!["NAME", "USABLE", "VERSION", "FOUND", "PYTHON", "TO", "DO"],
            vec!["ray", "no", "muster", "framework", "install", "ray"],
            vec!["dask", "no", "muster", "framework", "install", "dask"],
            vec!["spark", "no", "muster", "framework", "install", "spark"],
        ]
    );
    let wide = home.muster(&["framework", "list", "-o", "wide"]).done().out;
    assert!(wide.contains("dask is not installed"), "{wide}");
    assert_eq!(home.muster(&["framework", "list", "-o", "name"]).done().out, "ray\ndask\nspark\n");
}

#[test]
fn a_variable_that_names_nothing_useful_is_told_below_the_list() {
    let home = Home::new();
    let list =
        |python: &str| run(home.command(&["framework", "list"]).env("MUSTER_PYTHON", python)).done().out;
    let said = list("/nowhere/bin/python");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("MUSTER_PYTHON is /nowhere/bin/python, which has none of them: "), "{said}");
    // Says a version to whoever asks for a module.
    let useful = program(&home, "useful", "printf '1\\n/package\\n'");
    let said = list(useful.to_str().expect("a path"));
    assert!(!said.contains("MUSTER_PYTHON is"), "{said}");
}

#[test]
fn a_variable_that_names_no_python_with_the_framework_is_refused_like_an_image() {
    let home = Home::new();
    let create = |python: &str| run(home.command(&["create", "xx"]).env("MUSTER_PYTHON", python));
    let said = create("/nonexistent/python");
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.err.contains("error: MUSTER_PYTHON /nonexistent/python: cannot be run: No such file"),
        "{said:?}"
    );
    let useless = program(&home, "useless", "exit 1");
    let said = create(useless.to_str().expect("a path"));
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("a Python with dask is expected"), "{said:?}");
    assert_eq!(home.muster(&["get", "-o", "name"]).done().out, "", "nothing is stored");
}

#[tokio::test]
async fn json_is_what_the_api_says() {
    let home = Home::new();
    let json = home.muster(&["framework", "list", "-o", "json"]).done().json();
    let rest = home.announced().unwrap()["rest"].as_str().unwrap().to_owned();
    let wire = reqwest::get(format!("http://{rest}/apis/v1alpha2/frameworks")).await.unwrap();
    assert_eq!(json, wire.json::<Value>().await.unwrap());
    assert_eq!(dask(&json)["command"], "muster framework install dask");
    let yaml = home.muster(&["framework", "list", "-o", "yaml"]).done().out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json);
}

#[test]
fn the_callers_own_python_counts_though_the_server_knows_nothing_of_it() {
    let home = Home::new();
    home.muster(&["whoami"]).done();
    let python = program(&home, "own", "echo 9.9");
    let own = |arguments: &[&str]| run(home.command(arguments).env("MUSTER_PYTHON", &python)).done();
    let list = own(&["framework", "list", "-o", "json"]).json();
    assert_eq!(dask(&list)["interpreter"], *python.to_string_lossy());
    assert_eq!((&dask(&list)["source"], &dask(&list)["version"]), (&"MUSTER_PYTHON".into(), &"9.9".into()));
    let said = own(&["framework", "install", "dask"]);
    assert_eq!(said.out, format!("dask 9.9 is there already: {} (MUSTER_PYTHON)\n", python.display()));
    let without = home.muster(&["framework", "list", "-o", "json"]).done().json();
    assert_eq!(dask(&without)["usable"], Value::Null, "{without}");
}

#[test]
fn an_installation_that_cannot_be_says_why() {
    let home = Home::new();
    let said = home.muster(&["framework", "install", "flink"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert_eq!(
        said.err.lines().last(),
        Some("error: 'flink' is no framework: one of ray, dask, spark is expected")
    );
}

#[test]
fn without_java_spark_is_not_installed_and_everything_says_why() {
    let home = Home::new();
    let list = run(&mut with_java(&home, &["framework", "list"], 11)).done();
    let why = "spark needs Java 17 or newer, and ";
    let spark = list.out.lines().find(|line| line.starts_with("spark")).unwrap();
    assert!(spark.contains(why) && spark.contains("/bin/java is version 11: install it"), "{spark}");
    // An environment of the caller that has the package is not enough either.
    let python = program(&home, "own", "echo 4.3.0");
    let list = run(home.command(&["framework", "list"]).env("MUSTER_PYTHON", python)).done();
    assert!(list.out.lines().any(|line| line.starts_with("spark") && line.contains(why)), "{list:?}");
    let said = home.muster(&["framework", "install", "spark"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("error: {why}")), "{said:?}");
    assert!(!said.err.contains("making a Python environment"), "nothing is begun: {said:?}");
    let all = home.muster(&["framework", "install", "all"]);
    assert!(all.err.contains(&format!("spark: {why}")), "the others are: {all:?}");
}

#[test]
fn a_failed_installation_is_1_with_the_last_lines_and_what_to_do() {
    let home = Home::new();
    let no_venv = "echo 'The virtual environment was not created because ensurepip is not available'; exit 1";
    let said = run(&mut with_python3(&home, &["framework", "install", "dask"], no_venv));
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("error: python3 has no module venv or ensurepip"), "{said:?}");
    assert!(said.err.contains("apt install python3-venv"), "{said:?}");
    assert!(said.err.contains("\nThe virtual environment was not created"), "{said:?}");
    assert_eq!(said.out, "");
}

#[tokio::test]
async fn without_a_network_pip_has_the_last_word() {
    if muster_testkit::python("dask").await.is_none() {
        return;
    }
    let home = Home::new();
    let mut command = home.command(&["framework", "install", "dask"]);
    // Nobody listens on port 1.
    command.env("PIP_INDEX_URL", "http://127.0.0.1:1/simple").env("PIP_EXTRA_INDEX_URL", "");
    command.env("PIP_RETRIES", "0").env("PIP_NO_INDEX", "0").env("PIP_FIND_LINKS", "");
    let said = run(&mut command);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("error: the packages of dask could not be installed"), "{said:?}");
    assert!(said.err.contains("set PIP_INDEX_URL or PIP_PROXY"), "{said:?}");
    assert!(said.err.ends_with("No matching distribution found for click==8.5.1\n"), "{said:?}");
}

#[tokio::test]
async fn a_server_that_dies_ends_the_installation_and_the_next_begins_anew() {
    let home = Home::new();
    let pipe = home.data().with_file_name("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let waits = format!("echo begun; timeout 60 cat {}; exit 1", pipe.display());
    let mut server = home.serve_by(&with_python3(&home, &["serve"], &waits)).await;
    let mut installing = home.begin(&["framework", "install", "dask"]);
    installing.wait_for_line("dask: begun", PATIENCE).await;
    server.kill();
    server.wait_for_exit(PATIENCE).await;
    assert_eq!(installing.wait_for_exit(PATIENCE).await.code(), Some(1), "{}", installing.tail());
    installing.wait_for_line("hint: `muster framework install dask` begins anew", PATIENCE).await;
    // What the dead server started still runs: the next installation waits for its end, and says so.
    let _server = home.serve_by(&with_python3(&home, &["serve"], "echo ended otherwise; exit 1")).await;
    let mut next = home.begin(&["framework", "install", "dask"]);
    next.wait_for_line("dask is being installed already: waiting for that", PATIENCE).await;
    std::fs::write(&pipe, "go\n").unwrap();
    next.wait_for_line("ended otherwise", PATIENCE).await;
    assert_eq!(next.wait_for_exit(PATIENCE).await.code(), Some(1), "{}", next.tail());
}
