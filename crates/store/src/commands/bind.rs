//! Binding a policy to a cluster.

use futures::future::BoxFuture;
use muster_core::policy::{Binding, Policy};

use crate::error::StoreError;
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{args, json};

/// Stores a binding, and its policy if that is new.
#[derive(Debug, Clone)]
pub(crate) struct Bind {
    pub(crate) binding: Binding,
}

impl Command for Bind {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const POLICY: &str = "INSERT INTO policies (id, name, type, project, user_id, spec, data, created_at, updated_at) \
                              VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING";
        const BINDING: &str = "INSERT INTO bindings (id, cluster_id, policy_id, enabled, priority, data, last_op) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (cluster_id, policy_id) DO UPDATE SET \
                               enabled = excluded.enabled, data = excluded.data, last_op = excluded.last_op";
        Box::pin(async move {
            let Binding { id, cluster_id, policy, enabled, priority, data, last_op } = &self.binding;
            let Policy { id: policy_id, name, kind, project, user, spec, data: kept, created_at, updated_at } =
                policy;
            let row = args![
                policy_id.to_string(),
                name,
                kind,
                project,
                user,
                json(spec),
                json(kept),
                *created_at,
                *updated_at,
            ];
            tx.execute(POLICY, row).await?;
            let row = args![
                id.to_string(),
                cluster_id.to_string(),
                policy_id.to_string(),
                *enabled,
                i64::from(*priority),
                json(data),
                *last_op,
            ];
            tx.execute(BINDING, row).await?;
            tx.touch(Touched::Cluster(*cluster_id));
            Ok(())
        })
    }
}
