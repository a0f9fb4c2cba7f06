//! The commands that write image templates, each with the task that builds its image.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::image_template::ImageTemplate;

use super::named_write::NamedWrite;
use crate::error::StoreError;
use crate::rows::{events, image_templates, tasks};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;

/// Stores a template that was created, and its build.
#[derive(Debug, Clone)]
pub struct InsertImageTemplate {
    /// The template.
    pub template: ImageTemplate,
    /// The events to record, if the template is stored.
    pub events: Vec<Event>,
    /// The request id of the caller, if there is one.
    pub named: Option<NamedWrite>,
}

impl Command for InsertImageTemplate {
    /// True if the template was stored; false if its name is taken, or the request was executed before.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        Box::pin(async move {
            if NamedWrite::was_executed(self.named.as_ref(), tx).await?
                || !image_templates::insert(tx, &self.template).await?
            {
                return Ok(false);
            }
            NamedWrite::remember(self.named.as_ref(), tx).await?;
            tasks::insert(tx, &self.template.task).await?;
            events::insert(tx, &self.events).await?;
            tx.touch(Touched::Tasks);
            Ok(true)
        })
    }
}

/// Removes a template, and cancels its build if that has not ended.
#[derive(Debug, Clone)]
pub struct DeleteImageTemplate {
    /// The template.
    pub template: ImageTemplate,
    /// The events to record, if the template is removed.
    pub events: Vec<Event>,
    /// The request id of the caller, if there is one.
    pub named: Option<NamedWrite>,
}

impl Command for DeleteImageTemplate {
    /// True if the template existed.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const DELETE: &str = "DELETE FROM image_templates WHERE id = $1";
        const CANCEL: &str = "UPDATE tasks SET cancelled = 1 WHERE id = $1 AND ended_at IS NULL";
        Box::pin(async move {
            let ImageTemplate { id, task, .. } = &self.template;
            if NamedWrite::was_executed(self.named.as_ref(), tx).await? {
                return Ok(false);
            }
            NamedWrite::remember(self.named.as_ref(), tx).await?;
            let removed = tx.execute(DELETE, args![id.to_string()]).await? > 0;
            if removed {
                tx.execute(CANCEL, args![task.id.to_string()]).await?;
                events::insert(tx, &self.events).await?;
                tx.touch(Touched::Task(task.id));
            }
            Ok(removed)
        })
    }
}
