//! The lines that tests and the testbed exchange: one JSON object each way.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kubernetes::Component;

/// What the testbed is asked: a line like `{"want":"kubernetes"}`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// For a part by its name, such as `kubernetes`.
    Want(String),
    /// To do something to a component that runs.
    Do(Order, Component),
}

/// What a component can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// To stand still (SIGSTOP).
    Freeze,
    /// To go on.
    Thaw,
    /// To be gone (SIGKILL) until it is started.
    Kill,
    /// To run again, where it was and with what it had.
    Start,
    /// To go on as it does; asked for the answer alone, which names its process.
    Identify,
}

/// What the testbed says to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It runs, and this is where.
    Have(Value),
    /// It cannot be had on this machine, for this reason; a test that needs it is skipped.
    Missing(String),
    /// It should have worked and did not; a test that needs it fails.
    Failed(String),
}

impl Answer {
    /// An answer that hands out `parts`.
    pub(crate) fn have(parts: &impl Serialize) -> Self {
        match serde_json::to_value(parts) {
            Ok(value) => Self::Have(value),
            Err(error) => Self::Failed(format!("the testbed cannot describe what it has: {error}")),
        }
    }
}

/// Where the shared Kubernetes is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KubernetesParts {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) log_dir: PathBuf,
}

/// Where the shared PostgreSQL is. Without a folder of programs the ones on the `PATH` are used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PostgresParts {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) bin_dir: Option<PathBuf>,
}

/// The process of a component that was told something; none if it was killed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ProcessParts {
    pub(crate) pid: Option<u32>,
}

/// Where an operator's log is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OperatorParts {
    pub(crate) log: PathBuf,
}

/// Where a program is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProgramParts {
    pub(crate) program: PathBuf,
}

/// Where the interpreter of a Python environment is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PythonParts {
    pub(crate) python: PathBuf,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::Operator;

    #[rstest]
    #[case(Request::Want("kubernetes".into()), r#"{"want":"kubernetes"}"#)]
    #[case(Request::Do(Order::Kill, Component::ApiServer), r#"{"do":["kill","api_server"]}"#)]
    #[case(Request::Do(Order::Identify, Component::ApiServer), r#"{"do":["identify","api_server"]}"#)]
    #[case(
        Request::Do(Order::Freeze, Component::Operator(Operator::KubeRay)),
        r#"{"do":["freeze",{"operator":"kuberay"}]}"#
    )]
    fn a_request_is_a_line(#[case] request: Request, #[case] line: &str) {
        assert_eq!(serde_json::to_string(&request).unwrap(), line);
        assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
    }
}
