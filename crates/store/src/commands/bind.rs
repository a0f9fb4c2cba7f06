//! The changes of bindings of policies to clusters.

use futures::future::BoxFuture;
use muster_core::ids::BindingId;
use muster_core::policy::Binding;

use crate::error::StoreError;
use crate::rows::policies;
use crate::transaction::{Command, Touched, Transaction};

/// The change of a binding, committed with the action that makes it.
#[derive(Debug, Clone, PartialEq)]
pub enum BindingChange {
    /// The binding is created or updated; its policy exists already.
    Put(Box<Binding>),
    /// The binding is removed.
    Remove(BindingId),
}

impl BindingChange {
    pub(super) async fn write(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        match self {
            Self::Put(binding) => policies::put_binding(tx, binding).await,
            Self::Remove(id) => policies::remove_binding(tx, *id).await,
        }
    }
}

/// Stores a binding, and its policy if that is new.
#[derive(Debug, Clone)]
pub(crate) struct Bind {
    pub(crate) binding: Binding,
}

impl Command for Bind {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            policies::insert(tx, &self.binding.policy).await?;
            policies::put_binding(tx, &self.binding).await?;
            tx.touch(Touched::Cluster(self.binding.cluster_id));
            Ok(())
        })
    }
}
