//! `muster framework` lists, installs, upgrades and removes frameworks.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Harness, TIMEOUT, run};

/// Writes an executable script into a folder of its own. A child process writes it: a file that is open for writing, even in a
/// process that another test is just starting, cannot be executed.
pub(crate) fn program(harness: &Harness, name: &str, script: &str) -> PathBuf {
    let folder = harness.data().with_file_name("programs");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(name);
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#;
    let written = Command::new("sh").args(["-c", write, "sh", script]).arg(&file).status();
    assert!(written.expect("sh runs").success());
    file
}

/// Builds a command whose only `python3` is this script.
fn with_python3(harness: &Harness, arguments: &[&str], script: &str) -> Command {
    let folder = program(harness, "python3", script).parent().map(Path::to_owned).expect("a folder");
    let others = std::env::var("PATH").expect("PATH");
    let mut command = harness.command(arguments);
    command.env("PATH", format!("{}:{others}", folder.display()));
    command
}

/// Builds a command whose only Java has this version.
fn with_java(harness: &Harness, arguments: &[&str], version: u32) -> Command {
    let folder = harness.data().with_file_name("programs");
    std::fs::create_dir_all(folder.join("bin")).expect("a folder");
    let output = format!("  java.home = {}\\n  java.specification.version = {version}\\n", folder.display());
    program(harness, "bin/java", &format!("printf '{output}' >&2"));
    let mut command = harness.command(arguments);
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
    let harness = Harness::new();
    let early = harness.muster(&["create", "early"]);
    assert_eq!(early.code, 1, "{early:?}");
    assert!(early.err.contains("`muster framework install dask` installs it"), "{early:?}");
    assert_eq!(harness.muster(&["get", "early"]).code, 4, "nothing is stored");
    let before = harness.announced().unwrap()["pid"].clone();

    let output = harness.muster(&["framework", "install", "dask"]).success();
    assert!(output.err.contains("dask: creating a Python environment in "), "{output:?}");
    assert!(output.err.contains("dask: Collecting distributed=="), "{output:?}");
    assert!(output.out.starts_with("dask 20") && output.out.contains(" is installed: "), "{output:?}");
    let again = harness.muster(&["framework", "install", "dask"]).success();
    assert!(again.out.starts_with("dask 20") && again.out.contains(" is installed already: "), "{again:?}");
    let list = harness.muster(&["framework", "list", "-o", "json"]).success().json();
    assert_eq!(
        (&dask(&list)["usable"], &dask(&list)["source"]),
        (&true.into(), &"installed by Muster".into())
    );
    let interpreter = dask(&list)["interpreter"].as_str().unwrap();
    assert!(Path::new(interpreter).starts_with(harness.data()), "{list}");

    harness.muster(&["create", "fred"]).success();
    let processes = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
    assert!(processes.lines().any(|line| line.starts_with(interpreter)), "no process runs in {interpreter}");
    assert_eq!(harness.announced().unwrap()["pid"], before, "it is the same server");

    // Packages are added to an installation, and upgrades keep them.
    let output =
        harness.muster(&["framework", "install", "dask", "--with", "six==1.16.0", "-o", "json"]).success();
    assert!(output.err.contains("dask: adding six==1.16.0"), "{output:?}");
    assert_eq!(dask(&output.json())["packages"], serde_json::json!(["six==1.16.0"]));
    let six = || Command::new(interpreter).args(["-I", "-c", "import six"]).status().unwrap().success();
    assert!(six(), "it cannot be imported");
    let output = harness.muster(&["framework", "upgrade", "dask"]).success();
    assert!(output.out.contains(" with six==1.16.0 is up to date: ") && six(), "{output:?}");
    let output = harness.muster(&["framework", "remove", "dask"]);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.err.contains("dask is used by default/fred: delete these clusters first"), "{output:?}");
    harness.muster(&["delete", "fred"]).success();
    assert_eq!(harness.muster(&["framework", "remove", "dask"]).success().out, "dask removed\n");
    assert!(!Path::new(interpreter).exists());
    assert_eq!(harness.muster(&["framework", "remove", "dask"]).code, 4);
}

#[test]
fn packages_are_not_added_to_a_python_that_muster_did_not_install() {
    let harness = Harness::new();
    let python = program(&harness, "own", "echo 9.9");
    let install = ["framework", "install", "dask", "--with", "pandas,numpy"];
    let output = run(harness.command(&install).env("MUSTER_PYTHON", &python));
    assert_eq!(output.code, 3, "{output:?}");
    let to_do = format!("hint: add packages with `{} -m pip install pandas numpy`", python.display());
    assert!(output.err.contains(&to_do), "{output:?}");
    let output = harness.muster(&["framework", "upgrade", "dask"]);
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.err.contains("dask was not installed by Muster"), "{output:?}");
}

#[test]
fn a_list_has_the_command_that_installs_what_is_missing() {
    let harness = Harness::new();
    let output = run(&mut with_java(&harness, &["framework", "list"], 17)).success();
    let lines: Vec<Vec<&str>> = output.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [
            vec!["NAME", "USABLE", "VERSION", "FOUND", "PYTHON", "TO", "DO"],
            vec!["ray", "no", "muster", "framework", "install", "ray"],
            vec!["dask", "no", "muster", "framework", "install", "dask"],
            vec!["spark", "no", "muster", "framework", "install", "spark"],
        ]
    );
    let wide = harness.muster(&["framework", "list", "-o", "wide"]).success().out;
    assert!(wide.contains("dask is not installed (searched: MUSTER_PYTHON of the server: not set"), "{wide}");
    assert_eq!(harness.muster(&["framework", "list", "-o", "name"]).success().out, "ray\ndask\nspark\n");
}

#[test]
fn a_variable_without_effect_is_explained_below_the_list() {
    let harness = Harness::new();
    let list = |python: &str| {
        run(harness.command(&["framework", "list"]).env("MUSTER_PYTHON", python)).success().out
    };
    let output = list("/nowhere/bin/python");
    let last = output.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("MUSTER_PYTHON is /nowhere/bin/python, which has none of these frameworks: "),
        "{output}"
    );
    // Reports a version of any module.
    let useful = program(&harness, "useful", "printf '1\\n/package\\n'");
    let output = list(useful.to_str().expect("a path"));
    assert!(!output.contains("MUSTER_PYTHON is"), "{output}");
}

#[test]
fn a_variable_that_names_a_python_without_the_framework_is_refused_like_an_image() {
    let harness = Harness::new();
    let create = |python: &str| run(harness.command(&["create", "xx"]).env("MUSTER_PYTHON", python));
    let output = create("/nonexistent/python");
    assert_eq!(output.code, 2, "{output:?}");
    assert!(
        output.err.contains("error: MUSTER_PYTHON /nonexistent/python: cannot be run: No such file"),
        "{output:?}"
    );
    let useless = program(&harness, "useless", "exit 1");
    let output = create(useless.to_str().expect("a path"));
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("name a Python that has dask"), "{output:?}");
    assert_eq!(harness.muster(&["get", "-o", "name"]).success().out, "", "nothing is stored");
}

#[tokio::test]
async fn json_is_the_json_of_the_api() {
    let harness = Harness::new();
    let json = harness.muster(&["framework", "list", "-o", "json"]).success().json();
    let rest = harness.announced().unwrap()["rest"].as_str().unwrap().to_owned();
    let wire = reqwest::get(format!("http://{rest}/apis/v1alpha2/frameworks")).await.unwrap();
    assert_eq!(json, wire.json::<Value>().await.unwrap());
    assert_eq!(dask(&json)["command"], "muster framework install dask");
    let yaml = harness.muster(&["framework", "list", "-o", "yaml"]).success().out;
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json);
}

#[test]
fn the_callers_own_python_is_used_although_the_server_does_not_know_it() {
    let harness = Harness::new();
    harness.muster(&["whoami"]).success();
    let python = program(&harness, "own", "echo 9.9");
    let own = |arguments: &[&str]| run(harness.command(arguments).env("MUSTER_PYTHON", &python)).success();
    let list = own(&["framework", "list", "-o", "json"]).json();
    assert_eq!(dask(&list)["interpreter"], *python.to_string_lossy());
    assert_eq!((&dask(&list)["source"], &dask(&list)["version"]), (&"MUSTER_PYTHON".into(), &"9.9".into()));
    let output = own(&["framework", "install", "dask"]);
    assert_eq!(output.out, format!("dask 9.9 is installed already: {} (MUSTER_PYTHON)\n", python.display()));
    let without = harness.muster(&["framework", "list", "-o", "json"]).success().json();
    assert_eq!(dask(&without)["usable"], Value::Null, "{without}");
}

#[test]
fn an_unknown_framework_is_refused_with_the_known_ones() {
    let harness = Harness::new();
    let output = harness.muster(&["framework", "install", "flink"]);
    assert_eq!(output.code, 2, "{output:?}");
    assert_eq!(
        output.err.lines().last(),
        Some("error: 'flink' is not a framework: must be ray, dask or spark")
    );
}

#[test]
fn without_java_spark_is_not_installed_and_every_command_says_why() {
    let harness = Harness::new();
    let list = run(&mut with_java(&harness, &["framework", "list"], 11)).success();
    let why = "spark needs Java 17 or newer, but ";
    let spark = list.out.lines().find(|line| line.starts_with("spark")).unwrap();
    assert!(spark.contains(why) && spark.contains("/bin/java is version 11: install it"), "{spark}");
    // An environment of the caller that has the package is not enough.
    let python = program(&harness, "own", "echo 4.3.0");
    let list = run(harness.command(&["framework", "list"]).env("MUSTER_PYTHON", python)).success();
    assert!(list.out.lines().any(|line| line.starts_with("spark") && line.contains(why)), "{list:?}");
    let output = harness.muster(&["framework", "install", "spark"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains(&format!("error: {why}")), "{output:?}");
    assert!(!output.err.contains("creating a Python environment"), "nothing is begun: {output:?}");
    let all = harness.muster(&["framework", "install", "all"]);
    assert!(all.err.contains(&format!("spark: {why}")), "the others are: {all:?}");
}

#[test]
fn a_failed_installation_is_1_with_the_last_lines_and_what_to_do() {
    let harness = Harness::new();
    let no_venv = "echo 'The virtual environment was not created because ensurepip is not available'; exit 1";
    let output = run(&mut with_python3(&harness, &["framework", "install", "dask"], no_venv));
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("error: python3 has no module venv or ensurepip"), "{output:?}");
    assert!(output.err.contains("apt install python3-venv"), "{output:?}");
    assert!(output.err.contains("\nThe virtual environment was not created"), "{output:?}");
    assert_eq!(output.out, "");
}

#[tokio::test]
async fn without_a_network_the_last_line_is_pips_error() {
    if muster_testkit::python("dask").await.is_none() {
        return;
    }
    let harness = Harness::new();
    let mut command = harness.command(&["framework", "install", "dask"]);
    // No program listens on port 1.
    command.env("PIP_INDEX_URL", "http://127.0.0.1:1/simple").env("PIP_EXTRA_INDEX_URL", "");
    command.env("PIP_RETRIES", "0").env("PIP_NO_INDEX", "0").env("PIP_FIND_LINKS", "");
    let output = run(&mut command);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.err.contains("error: the packages of dask could not be installed"), "{output:?}");
    assert!(output.err.contains("set PIP_INDEX_URL or PIP_PROXY"), "{output:?}");
    assert!(output.err.ends_with("No matching distribution found for click==8.5.1\n"), "{output:?}");
}

#[tokio::test]
async fn a_server_that_dies_ends_the_installation_and_the_next_one_restarts_it() {
    let harness = Harness::new();
    let pipe = harness.data().with_file_name("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let waits = format!("echo begun; timeout 60 cat {}; exit 1", pipe.display());
    let mut server = harness.serve_by(&with_python3(&harness, &["serve"], &waits)).await;
    let mut installing = harness.spawn(&["framework", "install", "dask"]);
    installing.wait_for_line("dask: begun", TIMEOUT).await;
    server.kill();
    server.wait_for_exit(TIMEOUT).await;
    assert_eq!(installing.wait_for_exit(TIMEOUT).await.code(), Some(1), "{}", installing.tail());
    installing.wait_for_line("hint: run `muster framework install dask` again", TIMEOUT).await;
    // The dead server's child still runs: the next installation waits for its end and says so.
    let _server = harness.serve_by(&with_python3(&harness, &["serve"], "echo ended otherwise; exit 1")).await;
    let mut next = harness.spawn(&["framework", "install", "dask"]);
    next.wait_for_line("another installation of dask is running: waiting for it to end", TIMEOUT).await;
    std::fs::write(&pipe, "go\n").unwrap();
    next.wait_for_line("ended otherwise", TIMEOUT).await;
    assert_eq!(next.wait_for_exit(TIMEOUT).await.code(), Some(1), "{}", next.tail());
}
