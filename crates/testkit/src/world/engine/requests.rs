//! The requests of a test to an engine, and their handlers.

use std::time::Duration;

use muster_core::action::{Action, ActionKind, Milestone, OnConflict};
use muster_core::change::Change;
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::{ActionId, ClusterId, EngineId, NodeId, ProfileId};
use muster_core::principal::Door;
use muster_core::profile::Profile;
use muster_core::sample;
use muster_core::time::TimeSpan;
use muster_engine::{Caller, ChangeRequest, Engine, NewNode, NodeChangeRequest, SubmitError};
use muster_store::StoreError;
use muster_store::commands::Accepted;
use muster_store::reads::ActionQuery;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::world::provider::WorldProvider;

/// A request to an engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EngineRequest {
    /// Create a cluster of this profile type with this number of workers.
    Create(ClusterId, String, u32),
    /// Change a cluster.
    Change(ClusterId, ActionKind, Value),
    /// Create a node from a stored profile, in a cluster or as an orphan.
    CreateNode(Option<ClusterId>, ProfileId),
    /// Change a node.
    ChangeNode(NodeId, ActionKind, Value),
    /// Wait for the end of an action.
    End(ActionId),
    /// Wait until a cluster has no unfinished actions.
    Rest(ClusterId),
    /// Return the present id of the engine.
    Name,
}

/// A response of an engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Action(Box<Action>),
    Name(EngineId),
    Rests,
    Refused(String),
}

pub(super) async fn answer(engine: &Engine, request: EngineRequest) -> Response {
    let response = match request {
        EngineRequest::Create(id, kind, workers) => {
            create(engine, id, &kind, workers).await.map(Response::accepted)
        }
        EngineRequest::Change(id, kind, inputs) => {
            change(engine, id, kind, inputs).await.map(Response::accepted)
        }
        EngineRequest::CreateNode(cluster, profile) => {
            create_node(engine, cluster, profile).await.map(Response::accepted)
        }
        EngineRequest::ChangeNode(id, kind, inputs) => {
            change_node(engine, id, kind, inputs).await.map(Response::accepted)
        }
        EngineRequest::End(id) => Ok(Response::Action(Box::new(end(engine, id).await))),
        EngineRequest::Rest(id) => {
            rest(engine, id).await;
            Ok(Response::Rests)
        }
        EngineRequest::Name => Ok(Response::Name(engine.id())),
    };
    response.unwrap_or_else(|error| Response::Refused(error.to_string()))
}

impl Response {
    fn accepted(accepted: Accepted) -> Self {
        Self::Action(Box::new(accepted.action))
    }
}

async fn create(engine: &Engine, id: ClusterId, kind: &str, workers: u32) -> Result<Accepted, SubmitError> {
    let kind = kind.parse().map_err(|_| SubmitError::Invalid(format!("'{kind}' is no profile type")))?;
    let sample = sample::cluster(workers, 0, None);
    let name = format!("c-{}", id.short());
    let profile = Profile { id: ProfileId::from_uuid(Uuid::now_v7()), kind, ..sample::profile() };
    let cluster = Cluster {
        id,
        object_name: format!("c-{id}"),
        name,
        instance: WorldProvider::instance_id(),
        profile_id: profile.id,
        profile_type: profile.kind.clone(),
        groups: vec![WorkerGroup { desired: workers, ..sample.groups[0].clone() }],
        init_at: engine.now(),
        ..sample
    };
    engine.create_cluster(cluster, muster_engine::Recipe::New(profile), false, caller()).await
}

async fn change(
    engine: &Engine,
    id: ClusterId,
    kind: ActionKind,
    inputs: Value,
) -> Result<Accepted, SubmitError> {
    let cluster = found("cluster", &id, engine.store().cluster(id).await?)?;
    let on_conflict = OnConflict::Queue;
    engine
        .submit(
            ChangeRequest {
                change: Change::read(kind, &inputs).map_err(SubmitError::Invalid)?,
                cluster,
                node: None,
                on_conflict,
                timeout: None,
            },
            caller(),
        )
        .await
}

async fn create_node(
    engine: &Engine,
    cluster: Option<ClusterId>,
    profile: ProfileId,
) -> Result<Accepted, SubmitError> {
    let cluster = match cluster {
        Some(id) => Some(found("cluster", &id, engine.store().cluster(id).await?)?),
        None => None,
    };
    let new = NewNode {
        name: "alone".to_owned(),
        profile: found("profile", &profile, engine.store().profile(profile).await?)?,
        cluster,
        instance: WorldProvider::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    Ok(Box::pin(engine.create_node(new, caller())).await?.0)
}

async fn change_node(
    engine: &Engine,
    id: NodeId,
    kind: ActionKind,
    inputs: Value,
) -> Result<Accepted, SubmitError> {
    let node = found("node", &id, engine.store().node(id).await?)?;
    let on_conflict = OnConflict::Queue;
    engine
        .submit_node(
            NodeChangeRequest {
                change: Change::read(kind, &inputs).map_err(SubmitError::Invalid)?,
                node,
                on_conflict,
                timeout: None,
            },
            caller(),
        )
        .await
}

fn found<T>(kind: &'static str, id: &impl ToString, row: Option<T>) -> Result<T, StoreError> {
    row.ok_or_else(|| StoreError::NotFound { kind, given: id.to_string() })
}

fn caller() -> Caller {
    Caller { principal: sample::principal(), door: Door::Core, reason: String::new(), request: None }
}

/// Waits for the end of an action, even if the database is unavailable for a while.
async fn end(engine: &Engine, id: ActionId) -> Action {
    loop {
        match engine.wait(id, Milestone::Reached, TimeSpan::from_secs(3600)).await {
            Ok(action) if action.status.is_final() => return action,
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Returns when a cluster has no unfinished actions.
async fn rest(engine: &Engine, id: ClusterId) {
    let mut commits = engine.store().subscribe();
    let query = ActionQuery { cluster: Some(id), top_level: true, ..ActionQuery::default() };
    loop {
        let actions = engine.store().actions(&query).await;
        if actions.is_ok_and(|page| page.items.iter().all(|action| action.status.is_final())) {
            return;
        }
        // Wait for the next commit; poll in case a notice was missed.
        drop(tokio::time::timeout(Duration::from_millis(200), commits.recv()).await);
    }
}
