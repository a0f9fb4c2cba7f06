//! The columns of each kind of object.

use std::borrow::Cow;

use muster_core::time::Timestamp;
use muster_proto::v1alpha2::{
    Action, App, Cluster, Event, Framework, Guest, ImageTemplate, Job, MachineType, Node, Shape,
};
use serde::Serialize;

use super::requested::requested;
use super::{Listed, age};
use crate::commands::machines::TypeLine;
use crate::output::harmless;

/// Joins a text into one line.
fn flat(text: &str) -> String {
    harmless(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first line of a text, marked with `…` if there are more.
fn first_line(text: &str) -> String {
    match text.trim().split_once('\n') {
        Some((first, _)) => format!("{} …", flat(first)),
        None => flat(text),
    }
}

/// Formats `ready/desired`; `?` if the ready workers were never observed.
pub(crate) fn workers(cluster: &Cluster) -> String {
    let ready = cluster.ready_workers.map_or_else(|| "?".to_owned(), |ready| ready.to_string());
    format!("{ready}/{}", cluster.desired_workers)
}

/// Fills an empty cell with `<missing>`, so that scripts can split columns.
fn filled(text: &str) -> String {
    if text.is_empty() { "<missing>".to_owned() } else { text.to_owned() }
}

/// Returns the app, or the job, that a cluster is deleted with; `None` for a cluster that stays.
pub(crate) fn deleted_with(cluster: &Cluster) -> Option<String> {
    if !cluster.job.is_empty() {
        return Some(format!("job/{}", cluster.job));
    }
    cluster.ephemeral.then(|| cluster.app.clone())
}

/// Returns what [`deleted_with`] returns as a column.
pub(crate) fn ephemeral(cluster: &Cluster) -> String {
    deleted_with(cluster).map_or_else(|| "<shared>".to_owned(), |app| filled(&app))
}

/// Returns how long ago a cluster was used last; the use is observed only of clusters with an idle timeout.
pub(crate) fn last_use(cluster: &Cluster, now: Timestamp) -> String {
    match (cluster.idle_since, cluster.idle_timeout) {
        (Some(since), _) => age(Some(since), now),
        // A cluster whose use is unknown counts as used.
        (None, Some(_)) => "now".to_owned(),
        (None, None) => filled(""),
    }
}

/// Returns the reason of a cluster's state; empty if the cluster works as it is described.
pub(crate) fn state_reason(cluster: &Cluster) -> &str {
    let is_healthy = cluster.state == "ACTIVE" && cluster.outdated_nodes.is_empty();
    if is_healthy { "" } else { &cluster.status_reason }
}

/// Returns the state of a node, marked if it runs with an older recipe than its cluster's.
fn node_state(node: &Node) -> String {
    if node.outdated { format!("{},outdated", node.state) } else { node.state.clone() }
}

impl Listed for Cluster {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles =
            vec!["NAMESPACE", "NAME", "FRAMEWORK", "PROVIDER", "STATE", "WORKERS", "EPHEMERAL", "AGE"];
        titles.extend(["CPU", "MEMORY", "GPU"]);
        if wide {
            titles.extend(["PYTHON", "VERSION", "LAST USE"]);
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
        line.extend(requested(self).map(|amount| filled(&amount)));
        if wide {
            line.extend([filled(&self.python_version), filled(&self.framework_version), last_use(self, now)]);
            let endpoint = |purpose: &str| self.endpoints.get(purpose).cloned().unwrap_or_default();
            line.extend(["address", "dashboard", "route"].map(|purpose| filled(&endpoint(purpose))));
            let owner = self.owner.as_ref().map(|owner| owner.name.clone()).unwrap_or_default();
            let reason = Some(flat(state_reason(self))).filter(|reason| !reason.is_empty());
            line.extend([filled(&owner), self.id.clone(), reason.unwrap_or_else(|| "<none>".to_owned())]);
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

/// A cluster in a list of one namespace: the line has no namespace column.
#[derive(Serialize)]
pub(crate) struct InNamespace(pub(crate) Cluster);

impl Listed for InNamespace {
    fn titles(wide: bool) -> Vec<&'static str> {
        Cluster::titles(wide).split_off(1)
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        self.0.line(wide, now).split_off(1)
    }

    fn called(&self) -> &str {
        self.0.called()
    }

    fn state(&self) -> &str {
        self.0.state()
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

impl Listed for TypeLine {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["TYPE", "CPU", "MEMORY", "GPU", "MAXIMUM", "RESERVED", "USED", "WAITING"];
        if wide {
            titles.extend(["GUESTS", "QUEUE"]);
        }
        titles
    }

    fn line(&self, wide: bool, _: Timestamp) -> Vec<String> {
        let MachineType { cpu, memory, gpu, maximum, reserved, used, waiting, guests, .. } =
            &self.machine_type;
        let gpu = if gpu.is_empty() { "0" } else { gpu };
        let mut line = vec![self.name.clone(), filled(cpu), filled(memory), gpu.to_owned()];
        line.extend([maximum, reserved, used, waiting].map(ToString::to_string));
        if wide {
            line.extend([true, false].map(|with_slot| filled(&flat(&guest_names(guests, with_slot)))));
        }
        line
    }

    fn called(&self) -> &str {
        &self.name
    }

    fn state(&self) -> &'static str {
        ""
    }
}

/// Lists guests in a cell: those with a slot, or those that wait, in order.
fn guest_names(guests: &[Guest], with_slot: bool) -> String {
    let chosen = guests.iter().filter(|guest| guest.has_slot == with_slot);
    chosen.map(|guest| format!("{}/{}", guest.namespace, guest.pod)).collect::<Vec<_>>().join(",")
}

impl Listed for Node {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["NAME", "ROLE", "GROUP", "STATE", "AGE", "GPUS"];
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
            node_state(self),
            age(self.init_at, now),
            self.gpu_devices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
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

/// Returns the message of an event. That of a start is only the short id of the action, as clients of the clustering API
/// expect it.
pub(crate) fn event_message(event: &Event) -> Cow<'_, str> {
    let is_id = event.phase == "start" && !event.message.is_empty() && !event.message.contains(' ');
    if is_id { Cow::Owned(format!("action {}", event.message)) } else { Cow::Borrowed(&event.message) }
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
            if wide { flat(&event_message(self)) } else { first_line(&event_message(self)) },
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
        let mut titles = vec!["ID", "NAME", "ACTION", "STATUS", "AGE", "REASON"];
        if wide {
            titles.extend(["TARGET", "CAUSE", "USER", "DOOR"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let mut line = vec![
            self.id.clone(),
            filled(&self.target_name),
            self.action.clone(),
            self.status.clone(),
            age(self.created_at, now),
            flat(&self.status_reason),
        ];
        if wide {
            let words = [&self.target, &self.cause, &self.user, &self.door];
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
            titles.extend(["PACKAGES", "MISSING"]);
        }
        titles
    }

    fn line(&self, wide: bool, _: Timestamp) -> Vec<String> {
        // Without a command to type, the most useful text is what is missing.
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
            line.extend([flat(&self.packages.join(",")), flat(&self.missing)]);
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

impl Listed for Job {
    fn titles(wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["NAME", "CLUSTER", "STATE", "EXIT", "AGE", "COMMAND"];
        if wide {
            titles.extend(["USER", "ID", "REASON"]);
        }
        titles
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        let exit = self.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        let command = flat(&self.command.join(" "));
        let age = age(self.created_at, now);
        let mut line = vec![self.name.clone(), self.cluster.clone(), self.state.clone(), exit, age, command];
        if wide {
            line.extend([self.user.clone(), self.id.clone(), flat(&self.status_reason)]);
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

/// A job in a list of several namespaces: the line has a namespace column.
pub(crate) struct JobWithNamespace(pub(crate) Job);

impl Listed for JobWithNamespace {
    fn titles(wide: bool) -> Vec<&'static str> {
        [vec!["NAMESPACE"], Job::titles(wide)].concat()
    }

    fn line(&self, wide: bool, now: Timestamp) -> Vec<String> {
        [vec![self.0.namespace.clone()], self.0.line(wide, now)].concat()
    }

    fn called(&self) -> &str {
        self.0.called()
    }

    fn state(&self) -> &str {
        Listed::state(&self.0)
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
