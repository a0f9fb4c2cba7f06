//! Mirrors the compute templates that a provider stores into rows, so that every list is read from rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use muster_core::compute_template::ComputeTemplate;
use muster_core::ids::InstanceId;
use muster_core::projects::ProjectNamespaces;
use muster_store::commands::MirrorComputeTemplates;
use muster_store::reads::{ComputeTemplateQuery, ComputeTemplateSort};
use muster_store::{Direction, StoreError};

use crate::context::Context;
use crate::ports::provider::{Provider, ProviderError, TemplateProvider};

/// The page size when all rows are read.
const PAGE_SIZE: u32 = 500;

/// The error of rows that could not be updated.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Mirrors the templates of one provider for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let Some(templates) = Arc::clone(&provider).template_provider() else {
        return context.stopping.cancelled().await;
    };
    let period: Duration = context.config.safety_period.into();
    let mut changes = templates.changes();
    let duty = format!("compute_templates/{}", provider.instance());
    loop {
        changes.mark_unchanged();
        let is_current = match mirror(&context, provider.instance(), templates.as_ref(), &duty).await {
            Ok(is_current) => is_current,
            Err(error) => {
                tracing::debug!(%error, "cannot mirror compute templates yet");
                false
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return context.stopping.cancelled().await },
            () = tokio::time::sleep(period), if !is_current => {}
            () = context.stopping.cancelled() => return,
        }
    }
}

/// Updates the rows; returns false if another engine holds the duty.
async fn mirror(
    context: &Context,
    instance: &InstanceId,
    templates: &dyn TemplateProvider,
    duty: &str,
) -> Result<bool, MirrorError> {
    let engine = context.lease().id;
    if !context.holds_duty(duty).await? {
        return Ok(false);
    }
    let observed = templates.observed();
    let mut rows = rows(context, instance).await?;
    rows.retain(|row| templates.knows(&row.namespace));
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    let Differences { new, other } = differences(rows, observed, &context.config.projects);
    changed.extend(new);
    // A row may be newer than what was observed: another replica has just written it.
    for row in other {
        match templates.read(&row.namespace, &row.name).await? {
            Some(now) => changed.push(with_project(now, &context.config.projects)),
            None => gone.push(row),
        }
    }
    if changed.is_empty() && gone.is_empty() {
        return Ok(true);
    }
    let command = MirrorComputeTemplates { duty: duty.to_owned(), engine, changed, gone };
    Ok(context.store.mirror_compute_templates(command).await?)
}

async fn rows(context: &Context, instance: &InstanceId) -> Result<Vec<ComputeTemplate>, StoreError> {
    let mut query = ComputeTemplateQuery {
        instance: Some(instance.clone()),
        sort: vec![(ComputeTemplateSort::Name, Direction::Ascending)],
        limit: Some(PAGE_SIZE),
        ..ComputeTemplateQuery::default()
    };
    let mut rows = Vec::new();
    loop {
        let page = context.store.compute_templates(&query).await?;
        rows.extend(page.items);
        if page.next.is_none() {
            return Ok(rows);
        }
        query.after = page.next;
    }
}

/// The differences between rows and templates.
#[derive(Debug, PartialEq, Eq)]
struct Differences {
    /// Templates without a row.
    new: Vec<ComputeTemplate>,
    /// Rows whose template was not observed, or was observed with another content.
    other: Vec<ComputeTemplate>,
}

fn differences(
    rows: Vec<ComputeTemplate>,
    observed: Vec<ComputeTemplate>,
    projects: &ProjectNamespaces,
) -> Differences {
    let observed = observed.into_iter().map(|template| with_project(template, projects));
    let mut observed: HashMap<(String, String), ComputeTemplate> =
        observed.map(|template| ((template.namespace.clone(), template.name.clone()), template)).collect();
    let mut other = Vec::new();
    for row in rows {
        if observed.remove(&(row.namespace.clone(), row.name.clone())).as_ref() != Some(&row) {
            other.push(row);
        }
    }
    let mut new: Vec<ComputeTemplate> = observed.into_values().collect();
    new.sort_by(|one, another| (&one.namespace, &one.name).cmp(&(&another.namespace, &another.name)));
    Differences { new, other }
}

/// Templates in namespaces without a project are visible to admins only: no project has an empty name.
fn with_project(template: ComputeTemplate, projects: &ProjectNamespaces) -> ComputeTemplate {
    let project = projects.project_of(&template.namespace).unwrap_or_default().to_owned();
    ComputeTemplate { project, ..template }
}

#[cfg(test)]
mod tests {
    use muster_core::compute_template::TemplateSpec;
    use muster_core::time::Timestamp;

    use super::*;

    fn template(name: &str, cpu: u32) -> ComputeTemplate {
        ComputeTemplate {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            project: "n".to_owned(),
            instance: None,
            uid: "u".to_owned(),
            spec: TemplateSpec { cpu, memory: 1, ..TemplateSpec::default() },
            created_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn rows_that_differ_are_found_and_templates_without_a_row() {
        let rows = vec![template("same", 1), template("changed", 1), template("gone", 1)];
        let observed = vec![template("same", 1), template("changed", 2), template("new", 1)];
        let found = differences(rows, observed, &ProjectNamespaces::default());
        let expected = Differences {
            new: vec![template("new", 1)],
            other: vec![template("changed", 1), template("gone", 1)],
        };
        assert_eq!(found, expected);
    }
}
