//! What stands in which column.

use muster_core::time::Timestamp;
use muster_proto::v1alpha2::{Action, App, Cluster, Event, Framework, ImageTemplate, Node, Shape};

use super::{Listed, age};
use crate::output::harmless;

/// A text on one line.
fn flat(text: &str) -> String {
    harmless(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first line of a text; that there are more is shown.
fn first_line(text: &str) -> String {
    match text.trim().split_once('\n') {
        Some((first, _)) => format!("{} …", flat(first)),
        None => flat(text),
    }
}

/// `ready/desired`; what was never seen is unknown.
pub(crate) fn workers(cluster: &Cluster) -> String {
    let ready = cluster.ready_workers.map_or_else(|| "?".to_owned(), |ready| ready.to_string());
    format!("{ready}/{}", cluster.desired_workers)
}

/// A cell that scripts can count on: what is not there has a word.
fn filled(text: &str) -> String {
    if text.is_empty() { "<missing>".to_owned() } else { text.to_owned() }
}

/// The app that a cluster ends with.
pub(crate) fn ephemeral(cluster: &Cluster) -> String {
    if cluster.ephemeral { filled(&cluster.app) } else { "<shared>".to_owned() }
}

impl Listed for Cluster {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles =
            vec!["NAMESPACE", "NAME", "FRAMEWORK", "PROVIDER", "STATE", "WORKERS", "EPHEMERAL", "AGE"];
        if wide {
            titles.extend(["ADDRESS", "UI", "ROUTE", "OWNER", "ID", "REASON"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let framework = if self.framework.is_empty() { &self.profile } else { &self.framework };
        let mut line = vec![
            self.namespace.clone(),
            self.name.clone(),
            framework.clone(),
            self.provider.clone(),
            self.state.clone(),
            workers(self),
            ephemeral(self),
            age(self.created_at, now),
        ];
        if wide {
            let endpoint = |purpose: &str| self.endpoints.get(purpose).cloned().unwrap_or_default();
            line.extend(["address", "dashboard", "route"].map(|purpose| filled(&endpoint(purpose))));
            let owner = self.owner.as_ref().map(|owner| owner.name.clone()).unwrap_or_default();
            line.extend([filled(&owner), self.id.clone(), filled(&flat(&self.status_reason))]);
        }
        line
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &str {
        &self.state
    }
}

impl Listed for App {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["NAMESPACE", "APP", "KIND", "CLUSTER", "EPHEMERAL", "STATE", "AGE"];
        if wide {
            titles.extend(["UID", "ID"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let clusters: Vec<&str> = self.uses.iter().map(|used| used.cluster.as_str()).collect();
        let ephemeral = self.uses.iter().any(|used| used.ephemeral);
        let mut line = vec![
            self.namespace.clone(),
            self.name.clone(),
            self.kind.clone(),
            filled(&clusters.join(",")),
            if ephemeral { "yes".to_owned() } else { "no".to_owned() },
            self.state.clone(),
            age(self.created_at, now),
        ];
        if wide {
            line.extend([self.uid.clone(), self.id.clone()]);
        }
        line
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &str {
        &self.state
    }
}

impl Listed for Node {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["NAME", "ROLE", "GROUP", "STATE", "AGE"];
        if wide {
            titles.extend(["PHYSICAL", "ID", "REASON"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let mut line = vec![
            self.name.clone(),
            self.role.clone(),
            self.group_name.clone(),
            self.state.clone(),
            age(self.init_at, now),
        ];
        if wide {
            line.extend([self.physical_id.clone(), self.id.clone(), flat(&self.status_reason)]);
        }
        line
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &str {
        &self.state
    }
}

impl Listed for Event {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["AGE", "LEVEL", "OBJECT", "REASON", "PHASE", "MESSAGE"];
        if wide {
            titles.extend(["USER", "DOOR", "ACTION"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let mut line = vec![
            age(self.at, now),
            self.level.clone(),
            self.object_name.clone(),
            self.reason.clone(),
            self.phase.clone(),
            if wide { flat(&self.message) } else { first_line(&self.message) },
        ];
        if wide {
            line.extend([self.user.clone(), self.door.clone(), self.action_id.clone()]);
        }
        line
    }

    fn called(&self) -> &str {
        &self.id
    }

    fn state(&self) -> &str {
        &self.level
    }
}

impl Listed for Action {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["ID", "ACTION", "STATUS", "AGE", "REASON"];
        if wide {
            titles.extend(["CLUSTER", "TARGET", "CAUSE", "USER", "DOOR"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let mut line = vec![
            self.id.clone(),
            self.action.clone(),
            self.status.clone(),
            age(self.created_at, now),
            flat(&self.status_reason),
        ];
        if wide {
            let words = [&self.cluster_id, &self.target, &self.cause, &self.user, &self.door];
            line.extend(words.into_iter().cloned());
        }
        line
    }

    fn called(&self) -> &str {
        &self.id
    }

    fn state(&self) -> &str {
        &self.status
    }
}

impl Listed for Framework {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["NAME", "USABLE", "VERSION", "FOUND", "PYTHON", "TO DO"];
        if wide {
            titles.push("MISSING");
        }
        titles
    }

    fn line(&self, wide: bool, _: Timestamp) -> Vec<String> {
        // Where nothing can be typed, what is missing says most.
        let to_do = if self.command.is_empty() { &self.missing } else { &self.command };
        let mut line = vec![
            self.name.clone(),
            self.state().to_owned(),
            self.version.clone(),
            self.source.clone(),
            self.interpreter.clone(),
            flat(to_do),
        ];
        if wide {
            line.push(flat(&self.missing));
        }
        line
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        if self.usable { "yes" } else { "no" }
    }
}

impl Listed for Shape {
    fn titles(_: bool) -> Vec<&'static str> {
        vec!["NAME", "CPU", "MEMORY", "GPU"]
    }

    fn line(&self, _: bool, _: Timestamp) -> Vec<String> {
        let gpu = self.gpu.map(|gpu| gpu.to_string()).unwrap_or_default();
        vec![self.name.clone(), self.cpu.clone(), self.memory.clone(), gpu]
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }
}

impl Listed for ImageTemplate {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["NAME", "STATE", "PROVIDER", "AGE", "REASON"];
        titles.extend(wide.then_some("IMAGE"));
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let reason = self.status_reason.lines().next().unwrap_or_default().to_owned();
        let age = age(self.created_at, now);
        let mut line = vec![self.name.clone(), self.state.clone(), self.provider.clone(), age, reason];
        line.extend(wide.then(|| self.image.clone()));
        line
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }
}
