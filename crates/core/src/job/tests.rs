use rstest::rstest;
use serde_json::json;

use super::*;
use crate::sample;

fn job(status: TaskStatus, outputs: serde_json::Value) -> Job {
    let job = sample::job();
    Job { task: Task { outputs, status, ..job.task.clone() }, ..job }
}

#[rstest]
#[case(json!({}), false)]
#[case::it_waits_for_its_pod(json!({"launched": true}), true)]
#[case::of_an_older_version(json!({"started_at": 5}), true)]
fn a_command_is_launched_once(#[case] outputs: serde_json::Value, #[case] launched: bool) {
    assert_eq!(job(TaskStatus::Running, outputs).is_launched(), launched);
}

#[rstest]
#[case(TaskStatus::Ready, json!(null), JobState::Pending)]
#[case(TaskStatus::Running, json!({}), JobState::Pending)]
#[case(TaskStatus::Running, json!({"started_at": 5}), JobState::Running)]
#[case::its_engine_ended(TaskStatus::Ready, json!({"started_at": 5}), JobState::Running)]
#[case::its_pod_is_not_scheduled(TaskStatus::Running, json!({"launched": true}), JobState::Pending)]
#[case(TaskStatus::Succeeded, json!({"started_at": 5, "exit_code": 0}), JobState::Succeeded)]
#[case(TaskStatus::Failed, json!({"exit_code": 7}), JobState::Failed)]
#[case(TaskStatus::Cancelled, json!(null), JobState::Stopped)]
fn a_job_runs_once_its_command_was_started(
    #[case] status: TaskStatus,
    #[case] outputs: serde_json::Value,
    #[case] expected: JobState,
) {
    assert_eq!(job(status, outputs).state(), expected);
}

#[rstest]
#[case(ClusterStatus::Creating, ClusterReadiness::Wait)]
#[case(ClusterStatus::Recovering, ClusterReadiness::Wait)]
#[case(ClusterStatus::Active, ClusterReadiness::Ready)]
#[case(ClusterStatus::Resizing, ClusterReadiness::Ready)]
#[case(ClusterStatus::Warning, ClusterReadiness::Ready)]
#[case(ClusterStatus::Critical, ClusterReadiness::Never("its cluster 'fred' is CRITICAL: no head".to_owned()))]
#[case(ClusterStatus::Deleting, ClusterReadiness::Never("its cluster 'fred' is deleted".to_owned()))]
fn a_job_waits_for_a_cluster_that_is_on_its_way(
    #[case] status: ClusterStatus,
    #[case] expected: ClusterReadiness,
) {
    let sample = sample::cluster(1, 0, None);
    let cluster = Cluster { name: "fred".to_owned(), status, status_reason: "no head".to_owned(), ..sample };
    assert_eq!(ClusterReadiness::from_cluster(Some(&cluster)), expected);
    let deleted = Cluster { deleted_at: Some(Timestamp::default()), ..cluster };
    assert!(matches!(ClusterReadiness::from_cluster(Some(&deleted)), ClusterReadiness::Never(_)));
    assert!(cluster_is_deleted(Some(&deleted)) && cluster_is_deleted(None));
}

#[rstest]
#[case(&["train.py", "--fast"], Some("/venv/python"), &["/venv/python", "train.py", "--fast"])]
#[case(&["train.py"], None, &["python3", "train.py"])]
#[case(&["python", "train.py"], Some("/venv/python"), &["python", "train.py"])]
fn a_python_file_is_run_by_the_python_of_the_cluster(
    #[case] command: &[&str],
    #[case] python: Option<&str>,
    #[case] expected: &[&str],
) {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(JobSpec { command, ..JobSpec::default() }.words(python), expected);
}

#[rstest]
#[case(&[], "A", Some("command is empty: give a program and its arguments"))]
#[case(&["sh"], "A=B", Some("environment has a variable named 'A=B': must be a name without '='"))]
#[case(&["a\0"], "A", Some("command, working_dir or environment has a NUL character: remove it"))]
#[case(&["sh"], "A", None)]
fn a_command_that_no_system_takes_is_refused(
    #[case] command: &[&str],
    #[case] variable: &str,
    #[case] expected: Option<&str>,
) {
    let spec = JobSpec {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        environment: [(variable.to_owned(), "1".to_owned())].into(),
        ..JobSpec::default()
    };
    assert_eq!(spec.check().err().as_deref(), expected);
}

#[test]
fn the_last_lines_of_a_log_are_few_and_short() {
    let lines: Vec<String> = (1..=50).map(|line| format!("line {line}\n")).collect();
    let log = lines.concat();
    let shown = last_lines(&log);
    assert!(shown.starts_with("line 31\n") && shown.ends_with("line 50"), "{shown}");
    assert_eq!(last_lines(&"x".repeat(10_000)).len(), 4096);
    assert_eq!(last_lines(""), "");
}

#[test]
fn a_signal_is_an_exit_status_as_shells_number_it() {
    assert_eq!(CommandEnd::Signaled(15).exit_code(), Some(143));
    assert_eq!(CommandEnd::Exited(7).exit_code(), Some(7));
    assert_eq!(CommandEnd::Unknown.exit_code(), None);
}
