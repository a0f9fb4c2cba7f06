//! What doors and engines read.

mod actions;
mod changes;
mod clusters;
mod engines;
mod events;
mod limits;
mod nodes;
mod policies;
mod profiles;

pub use actions::{ActionQuery, ActionSort, Told};
pub(crate) use changes::FORGOTTEN;
pub use changes::{Changed, Changes, ChangesQuery, Position, Reach};
pub use clusters::{ClusterQuery, ClusterSort, Deleted, Subject};
pub use engines::EngineRow;
pub use events::{EventQuery, EventSort};
pub use nodes::{NodeQuery, NodeSort};
pub use policies::{BindingQuery, PolicyQuery, PolicySort};
