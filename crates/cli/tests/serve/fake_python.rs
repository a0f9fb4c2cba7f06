//! A fake Python interpreter, and clusters that use it.

use serde_json::{Value, json};

use crate::server::Server;

/// Writes a program that claims to be a Python with every framework. A child process writes it: a file that is open for
/// writing cannot be executed.
pub(crate) fn python(server: &Server) -> String {
    let file = server.data().with_file_name("python");
    let write = r#"test -e "$1" || { printf '#!/bin/sh\necho 9.9\n' > "$1" && chmod +x "$1"; }"#;
    let written = std::process::Command::new("sh").args(["-c", write, "sh"]).arg(&file).status();
    assert!(written.expect("sh runs").success());
    file.to_string_lossy().into_owned()
}

/// A cluster of a framework in this Python.
pub(crate) fn of_framework(framework: &str, name: &str, python: &str) -> Value {
    let groups = json!([{"group_name": "default", "replicas": 0, "image": python}]);
    let spec = json!({"head_group_spec": {"image": python}, "worker_group_spec": groups});
    json!({"name": name, "framework": framework, "cluster_spec": spec})
}
