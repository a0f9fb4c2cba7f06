//! The reads for services and engines.

mod actions;
mod apps;
mod changes;
mod clusters;
mod compute_templates;
mod engines;
mod events;
mod identify;
mod image_templates;
mod jobs;
mod limits;
mod nodes;
mod policies;
mod profiles;
mod receivers;
mod related_rows;
mod usage;

pub use actions::{ActionNames, ActionQuery, ActionSignals, ActionSort, Edges};
pub use apps::{AppQuery, AppSort, UnmarkedApp};
pub(crate) use changes::FORGOTTEN;
pub use changes::{ChangeBounds, Changed, Changes, ChangesQuery, Position};
pub use clusters::{ClusterQuery, ClusterSort, ClusterWithProfile, Deleted};
pub use compute_templates::{ComputeTemplateQuery, ComputeTemplateSort};
pub use engines::EngineRow;
pub use events::{EventQuery, EventSort};
pub use identify::{Found, ObjectKind};
pub use image_templates::{ImageTemplateQuery, ImageTemplateSort};
pub use jobs::{JobQuery, JobSort, JobUse, OpenJob};
pub use nodes::{NodeQuery, NodeSort};
pub use policies::{BindingQuery, PolicyQuery, PolicySort};
pub use profiles::{ProfileQuery, ProfileSort};
pub use receivers::{ReceiverQuery, ReceiverSort};
pub use related_rows::RelatedRows;
pub use usage::{UsageQuery, UsedCluster};

pub use crate::rows::cluster_objects::StoredObject;
