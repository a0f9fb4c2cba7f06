//! The command that adopts an existing process or pod as a node.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::rows::{events, nodes, profiles};
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Stores an existing node, with the profile that was read from it.
#[derive(Debug, Clone)]
pub struct Adopt {
    /// The profile of the node.
    pub profile: Profile,
    /// The node, with status ACTIVE.
    pub node: Node,
    /// The event that is recorded with it.
    pub event: Event,
}

impl Command for Adopt {
    /// The existing node of the same process or pod, if it was adopted before.
    type Output = Option<NodeId>;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Self::Output, StoreError>> {
        const KNOWN: &str = "SELECT id FROM nodes WHERE instance = $1 AND physical_id = $2";
        Box::pin(async move {
            let instance = self.node.instance.to_string();
            let known = tx.rows(KNOWN, args![instance, self.node.physical_id.clone()]).await?;
            if let Some(row) = known.first() {
                return Ok(Some(row.parse(0)?));
            }
            profiles::insert(tx, &self.profile).await?;
            nodes::insert(tx, std::slice::from_ref(&self.node)).await?;
            events::insert(tx, std::slice::from_ref(&self.event)).await?;
            Ok(None)
        })
    }
}
