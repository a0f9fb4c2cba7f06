//! Events of plain writes. Profiles, policies, receivers and templates are written without an action, and the event
//! records who wrote them.

use muster_core::event::{Event, Level, ObjectKind};
use muster_core::ids::EventId;
use muster_core::principal::{Door, Principal};
use muster_engine::new_id;
use serde_json::Map;

use crate::service::Service;

/// The author of a write, with the API and the request.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The authenticated caller.
    pub principal: Principal,
    /// The API.
    pub door: Door,
    /// The id of the request in the access log; empty if it has none.
    pub request_id: String,
    /// The id that the caller gave the request, with a digest of the request; a repeated request is not executed again.
    pub named: Option<(String, String)>,
}

/// The operation on an object that is written without an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Created,
    Updated,
    Deleted,
}

impl Written {
    const fn reason(self) -> &'static str {
        match self {
            Self::Created => "Created",
            Self::Updated => "Updated",
            Self::Deleted => "Deleted",
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

/// An object that is written without an action.
pub(crate) struct Object<'o> {
    /// The kind of object, such as `Profile` or `Policy`.
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    pub(crate) name: &'o str,
    pub(crate) project: &'o str,
}

impl Service {
    /// The event of a write.
    pub(crate) fn write_event(&self, writer: &Writer, written: Written, object: &Object<'_>) -> Event {
        let Writer { principal, door, request_id, named: _ } = writer;
        let Object { kind, id, name, project } = object;
        let mut data = Map::new();
        if !request_id.is_empty() {
            data.insert("request_id".to_owned(), request_id.clone().into());
        }
        Event {
            id: EventId::from_uuid(new_id()),
            at: self.now(),
            level: Level::Info,
            object_kind: ObjectKind::Other,
            object_id: id.clone(),
            object_name: (*name).to_owned(),
            cluster_id: None,
            action_id: None,
            reason: format!("{kind}{}", written.reason()),
            phase: String::new(),
            message: format!("{kind} '{name}' was {} by {}.", written.verb(), principal.name),
            user: principal.id.clone(),
            project: (*project).to_owned(),
            door: *door,
            data,
        }
    }
}
