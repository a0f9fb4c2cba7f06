//! The choice of the actions to claim: the oldest of each target, shared between projects.

use std::fmt::Write as _;

use muster_core::action::{Action, ActionStatus, Target};

use super::{Claim, OPEN, RUNNING};
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::rows::actions;
use crate::transaction::Transaction;
use crate::value::{Value, args};

// Projects are compared as `project || ''`, so that no database uses the index by project, which contains all of
// history.

impl Claim {
    /// Chooses READY actions whose target no other action has locked: of each target the one with the highest priority,
    /// and among these the oldest. An action that was started before precedes them all: it holds the lock that they
    /// wait for.
    pub(super) async fn waiting(
        &self,
        tx: &mut Transaction<'_>,
        limit: usize,
    ) -> Result<Vec<Action>, StoreError> {
        let mut chosen = Vec::new();
        let mut projects = self.projects(tx).await?;
        let mut left = limit;
        // A share that a project cannot use, because its actions wait for locks, is distributed among the others.
        while left > 0 {
            let shares = shares(&projects, left);
            let sharing = projects.iter_mut().zip(shares).filter(|(_, share)| *share > 0);
            for (project, share) in sharing {
                let (rest, arguments) =
                    self.choose_waiting(of_actions(tx), &project.name, share, project.chosen);
                let rows = tx.rows(actions::select(&rest), arguments).await?;
                project.is_exhausted = rows.len() < share;
                project.chosen += rows.len();
                left -= rows.len();
                chosen.extend(self.readable(tx, rows).await?);
            }
            let before = projects.len();
            projects.retain(|project| !project.is_exhausted);
            if projects.is_empty() || projects.len() == before {
                break;
            }
        }
        Ok(chosen)
    }

    /// The projects that have READY actions, with their numbers of actions that this engine runs, in ascending order.
    async fn projects(&self, tx: &mut Transaction<'_>) -> Result<Vec<Project>, StoreError> {
        let (sql, arguments) = self.choose_projects();
        let rows = tx.rows(sql, arguments).await?;
        rows.iter().map(|row| Ok(Project::new(row.text(0)?, row.number(1)?))).collect()
    }

    fn choose_projects(&self) -> (String, Vec<Value>) {
        let mut arguments = args![ActionStatus::Ready.as_str(), self.now];
        let filter = self.filter(&mut arguments);
        arguments.push(Value::Text(Some(self.engine.to_string())));
        let engine = arguments.len();
        let sql = format!(
            "SELECT w.project, (SELECT count(*) FROM actions a WHERE {RUNNING} AND a.owner = ${engine} \
             AND (a.project || '') = w.project) AS running FROM \
             (SELECT a.project, min(a.created_at) AS oldest FROM actions a WHERE {OPEN} AND a.status = $1 AND {filter} \
             AND (a.not_before IS NULL OR a.not_before <= $2) GROUP BY a.project) w ORDER BY running, w.oldest"
        );
        (sql, arguments)
    }

    fn choose_waiting(&self, lock: &str, project: &str, limit: usize, offset: usize) -> (String, Vec<Value>) {
        let mut arguments = args![ActionStatus::Ready.as_str(), self.now];
        let filter = self.filter(&mut arguments);
        arguments.push(Value::Text(Some(project.to_owned())));
        let project = arguments.len();
        // An action of a cluster precedes later ones of the cluster's nodes: they share the cluster's lock, and new
        // ones could starve the action of the cluster.
        let rest = format!(
            "WHERE {OPEN} AND a.status = $1 AND (a.project || '') = ${project} AND {filter} AND (a.not_before IS NULL OR a.not_before <= $2) \
             AND NOT EXISTS (SELECT 1 FROM locks l WHERE l.action_id <> a.id AND (l.target = a.target \
             OR (l.target = a.cluster_id AND (l.exclusive = 1 OR a.target = a.cluster_id)))) \
             AND NOT EXISTS (SELECT 1 FROM task_waits w JOIN tasks t ON t.id = w.task_id WHERE w.action_id = a.id AND t.ended_at IS NULL) \
             AND (a.started_at IS NOT NULL OR NOT EXISTS (SELECT 1 FROM actions e WHERE e.target = a.target AND e.status = $1 AND e.parent_id IS NULL \
             AND (e.priority > a.priority OR (e.priority = a.priority AND (e.created_at, e.id) < (a.created_at, a.id))))) \
             AND (a.started_at IS NOT NULL OR a.target = a.cluster_id OR NOT EXISTS (SELECT 1 FROM actions e \
             WHERE e.target = a.cluster_id AND e.status = $1 AND e.parent_id IS NULL AND (e.not_before IS NULL OR e.not_before <= $2) \
             AND (e.created_at, e.id) < (a.created_at, a.id))) \
             ORDER BY a.priority DESC, a.created_at, a.id LIMIT {limit} OFFSET {offset}{lock}",
        );
        (rest, arguments)
    }

    /// `instance IN (…) AND (kind = … AND version <= … OR …) AND target_kind IN (…)`.
    fn filter(&self, arguments: &mut Vec<Value>) -> String {
        let mut text = "a.instance IN (".to_owned();
        for (at, instance) in self.instances.iter().enumerate() {
            arguments.push(Value::Text(Some(instance.as_str().to_owned())));
            let _ = write!(text, "{}${}", if at == 0 { "" } else { ", " }, arguments.len());
        }
        text.push_str(") AND (");
        for (at, (kind, version)) in self.kinds.iter().enumerate() {
            let or = if at == 0 { "" } else { " OR " };
            let _ = write!(text, "{or}(a.kind = '{kind}' AND a.version <= {version})");
        }
        let _ = write!(text, ") AND a.target_kind IN ('{}')", Target::KINDS.join("', '"));
        text
    }

    pub(super) fn choose_abandoned(&self, lock: &str, now: i64) -> (String, Vec<Value>) {
        let mut arguments = args![now, self.now];
        let filter = self.filter(&mut arguments);
        // Chosen by the engine, because few engines are dead, while a live engine may run thousands of actions.
        let rest = format!(
            "WHERE {RUNNING} AND a.owner IN (SELECT e.id FROM engines e WHERE e.lease_until < $1) \
             AND (a.not_before IS NULL OR a.not_before <= $2) AND {filter} ORDER BY a.created_at, a.id LIMIT {}{lock}",
            self.limit,
        );
        (rest, arguments)
    }
}

/// A project that has READY actions.
struct Project {
    name: String,
    /// The number of its actions that this engine runs.
    running: usize,
    /// The number of its actions that were chosen in this claim.
    chosen: usize,
    /// True if no other action of the project can be claimed.
    is_exhausted: bool,
}

impl Project {
    const fn new(name: String, running: usize) -> Self {
        Self { name, running, chosen: 0, is_exhausted: false }
    }
}

/// The number of actions to claim for each project, so that all projects end up with equally many running actions.
fn shares(projects: &[Project], limit: usize) -> Vec<usize> {
    // A single project gets all slots.
    if projects.len() == 1 {
        return vec![limit];
    }
    let mut shares = vec![0; projects.len()];
    for _ in 0..limit {
        let all = projects.iter().zip(&mut shares);
        let least = all.min_by_key(|(project, share)| project.running + project.chosen + **share);
        if let Some((_, share)) = least {
            *share += 1;
        }
    }
    shares
}

pub(super) fn of_actions(tx: &Transaction<'_>) -> &'static str {
    match tx.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => " FOR UPDATE OF a SKIP LOCKED",
    }
}

#[cfg(test)]
mod tests {
    use muster_core::action::ActionKind;
    use muster_core::ids::{EngineId, InstanceId};
    use muster_core::time::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::value::Row;
    use crate::{migrate, sqlite};

    #[test]
    fn a_claim_does_not_go_through_history() {
        let mut database = rusqlite::Connection::open_in_memory().unwrap();
        migrate::sqlite(&mut database).unwrap();
        let claim = Claim {
            engine: EngineId::from_uuid(Uuid::from_u128(1)),
            instances: vec![InstanceId::new("simulated", "1")],
            kinds: vec![(ActionKind::ClusterCreate, 1), (ActionKind::ClusterDelete, 1)],
            limit: 10,
            now: Timestamp::from_micros(1),
        };
        let choices = [
            ("actions_running", claim.choose_abandoned("", 1)),
            ("actions_open", claim.choose_waiting("", "demo", 10, 0)),
        ];
        let choices = choices.map(|(index, (rest, arguments))| (index, actions::select(&rest), arguments));
        let (projects, arguments) = claim.choose_projects();
        for (index, sql, arguments) in choices.into_iter().chain([("actions_open", projects, arguments)]) {
            let explain = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = sqlite::rows(&database, &explain, arguments).unwrap();
            let plan: Vec<String> = plan.into_iter().map(|row| Row::Sqlite(row).text(3).unwrap()).collect();
            assert!(plan.iter().any(|step| step.contains(index)), "{plan:#?}");
            // Scans of engines, and of the projects that have work, are allowed, because these are few.
            let few = ["SCAN e", "SCAN w"];
            let scans = plan.iter().any(|step| step.starts_with("SCAN") && !few.contains(&step.as_str()));
            assert!(!scans, "{plan:#?}");
        }
    }

    /// Projects with a number each.
    type Counts = &'static [(&'static str, usize)];

    #[test]
    fn slots_are_shared_between_projects_that_have_work() {
        let projects = |counts: &[(&str, usize)]| -> Vec<Project> {
            counts.iter().map(|(project, running)| Project::new((*project).to_owned(), *running)).collect()
        };
        let cases: [(Counts, usize, Counts); 5] = [
            (&[], 5, &[]),
            (&[("a", 60)], 4, &[("a", 4)]),
            (&[("a", 0), ("b", 0)], 5, &[("a", 3), ("b", 2)]),
            (&[("b", 0), ("a", 3)], 4, &[("b", 4)]),
            (&[("b", 0), ("a", 2)], 4, &[("b", 3), ("a", 1)]),
        ];
        for (having, limit, expected) in cases {
            let shared = having.iter().zip(shares(&projects(having), limit));
            let shared: Vec<(&str, usize)> = shared
                .map(|((project, _), share)| (*project, share))
                .filter(|(_, share)| *share > 0)
                .collect();
            assert_eq!(shared, expected, "{having:?}");
        }
    }
}
