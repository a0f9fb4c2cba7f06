//! Writing compute templates.

use futures::future::BoxFuture;
use muster_core::compute_template::ComputeTemplate;
use muster_core::event::Event;
use muster_core::ids::EngineId;

use super::duty;
use crate::error::StoreError;
use crate::rows::{compute_templates, events};
use crate::transaction::{Command, MANY, Transaction};
use crate::value::args;

const DELETE: &str = "DELETE FROM compute_templates WHERE id = $1 AND uid = $2";

/// Stores a template that was created. Where its record is elsewhere, the row of an earlier one of its name is replaced.
#[derive(Debug, Clone)]
pub struct InsertComputeTemplate {
    /// The template.
    pub template: ComputeTemplate,
    /// Its events, if it is stored.
    pub events: Vec<Event>,
}

impl Command for InsertComputeTemplate {
    /// Whether it is stored: its name may be taken.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        Box::pin(async move {
            let is_stored = compute_templates::insert(tx, &self.template).await?;
            if is_stored {
                events::insert(tx, &self.events).await?;
            }
            Ok(is_stored)
        })
    }
}

/// Removes a template, unless another one has its name by now.
#[derive(Debug, Clone)]
pub struct DeleteComputeTemplate {
    /// The template.
    pub template: ComputeTemplate,
    /// Its events, if it is removed.
    pub events: Vec<Event>,
}

impl Command for DeleteComputeTemplate {
    /// Whether it was there.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        Box::pin(async move {
            let ComputeTemplate { namespace, name, uid, .. } = &self.template;
            let removed = tx.execute(DELETE, args![compute_templates::id(namespace, name), uid]).await? > 0;
            if removed {
                events::insert(tx, &self.events).await?;
            }
            Ok(removed)
        })
    }
}

/// Writes the rows of templates whose records are elsewhere, as they were observed.
#[derive(Debug, Clone)]
pub struct MirrorComputeTemplates {
    /// The duty that the writer has to have still.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// Templates that are new or have changed.
    pub changed: Vec<ComputeTemplate>,
    /// Templates that are gone.
    pub gone: Vec<ComputeTemplate>,
}

impl Command for MirrorComputeTemplates {
    /// Whether the writer still had the duty.
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
