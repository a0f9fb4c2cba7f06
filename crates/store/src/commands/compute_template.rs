//! The commands that write compute templates.

use futures::future::BoxFuture;
use muster_core::compute_template::ComputeTemplate;
use muster_core::event::Event;
use muster_core::ids::EngineId;

use super::duty;
use super::named_write::NamedWrite;
use crate::error::StoreError;
use crate::rows::{compute_templates, events};
use crate::transaction::{Command, MANY, Transaction};
use crate::value::args;

const DELETE: &str = "DELETE FROM compute_templates WHERE id = $1 AND uid = $2";

/// Stores a template that was created. If the record is a ConfigMap, the row of an earlier template of the same name is
/// replaced.
#[derive(Debug, Clone)]
pub struct InsertComputeTemplate {
    /// The template.
    pub template: ComputeTemplate,
    /// The events to record, if the template is stored.
    pub events: Vec<Event>,
    /// The request id of the caller, if there is one.
    pub named: Option<NamedWrite>,
}

impl Command for InsertComputeTemplate {
    /// True if the template was stored; false if its name is taken, or the request was executed before.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        Box::pin(async move {
            let is_stored = !NamedWrite::was_executed(self.named.as_ref(), tx).await?
                && compute_templates::insert(tx, &self.template).await?;
            if is_stored {
                NamedWrite::remember(self.named.as_ref(), tx).await?;
                events::insert(tx, &self.events).await?;
            }
            Ok(is_stored)
        })
    }
}

/// Removes a template, unless its name belongs to another template now.
#[derive(Debug, Clone)]
pub struct DeleteComputeTemplate {
    /// The template.
    pub template: ComputeTemplate,
    /// The events to record, if the template is removed.
    pub events: Vec<Event>,
    /// The request id of the caller, if there is one.
    pub named: Option<NamedWrite>,
}

impl Command for DeleteComputeTemplate {
    /// True if the template existed.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        Box::pin(async move {
            let ComputeTemplate { namespace, name, uid, .. } = &self.template;
            if NamedWrite::was_executed(self.named.as_ref(), tx).await? {
                return Ok(false);
            }
            // The row may be gone because the deletion of its ConfigMap was observed.
            NamedWrite::remember(self.named.as_ref(), tx).await?;
            let removed = tx.execute(DELETE, args![compute_templates::id(namespace, name), uid]).await? > 0;
            if removed {
                events::insert(tx, &self.events).await?;
            }
            Ok(removed)
        })
    }
}

/// Writes the rows of templates whose records are `ConfigMaps`, as they were observed.
#[derive(Debug, Clone)]
pub struct MirrorComputeTemplates {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// Templates that are new or have changed.
    pub changed: Vec<ComputeTemplate>,
    /// Templates that are gone.
    pub gone: Vec<ComputeTemplate>,
}

impl Command for MirrorComputeTemplates {
    /// True if the writer still held the duty.
    type Output = bool;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(false);
            }
            for ComputeTemplate { namespace, name, uid, .. } in &self.gone {
                tx.execute(DELETE, args![compute_templates::id(namespace, name), uid]).await?;
            }
            compute_templates::put(tx, &self.changed).await?;
            Ok(true)
        })
    }
}
