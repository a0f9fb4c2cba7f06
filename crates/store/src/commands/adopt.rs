//! Taking in a node that others made.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::profile::Profile;

use crate::error::StoreError;
use crate::rows::{events, nodes, profiles};
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Stores a node that is there already, with the recipe that was read from it.
#[derive(Debug, Clone)]
pub struct Adopt {
    /// The profile for it.
    pub profile: Profile,
    /// The node, working.
    pub node: Node,
    /// The event that is recorded with it.
    pub event: Event,
}

impl Command for Adopt {
    /// The node that it is already, if it is one.
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
