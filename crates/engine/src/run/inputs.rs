//! What an action was asked for, and where.

use muster_core::candidates;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// What it was asked for, as its kind reads it.
    pub(crate) fn inputs<T: DeserializeOwned>(&self) -> Result<T, Stop> {
        read(&self.action.inputs).map_err(Stop::Failed)
    }

    /// The group that it is about: the one that was asked for, else the first.
    pub(crate) fn asked_group(&self) -> Result<String, Stop> {
        let asked = self.action.inputs.get("group").and_then(Value::as_str).map(str::to_owned);
        let group = asked.or_else(|| self.cluster.groups.first().map(|group| group.name.clone()));
        group.ok_or_else(|| Stop::Failed("its cluster has no workers".to_owned()))
    }

    /// How many members a group has.
    pub(crate) fn members_of(&self, group: &str) -> usize {
        candidates::workers(&self.nodes, Some(group)).count()
    }
}

/// Inputs as a kind of action reads them.
pub(crate) fn read<T: DeserializeOwned>(inputs: &Value) -> Result<T, String> {
    T::deserialize(inputs).map_err(|error| format!("the inputs cannot be read: {error}"))
}
