//! Commands of the domain: each is one atomic change.

mod abandon;
mod accept;
mod bind;
mod claim;
mod depend;
mod duty;
mod evaluate;
mod join;
mod lease;
mod lifecycle;
mod limits;
mod mirror;
mod observe;
mod policies;
mod profile;
mod purge;
mod receiver;
mod record;
mod signal;

pub use abandon::Abandon;
pub use accept::{Accept, Accepted, NewCluster, RequestKey};
pub(crate) use bind::Bind;
pub use bind::BindingChange;
pub use claim::{Claim, Claimed};
pub use duty::TakeDuty;
pub use lease::{Heartbeat, Register, Retire};
pub use lifecycle::{CompleteLifecycle, EndWait};
pub use limits::{Expire, Expired, NoteWatched};
pub use mirror::{Mirror, Mirrored};
pub use observe::{Observe, SeenCluster};
pub use policies::{CreatePolicy, DeletePolicy, Removed, RenamePolicy};
pub use profile::{DeleteProfile, InsertProfile, UpdateProfile};
pub use purge::{Purge, Purged};
pub use receiver::{DeleteReceiver, PutReceiver};
pub use record::{End, PutBack, Record, Ticket};
pub use signal::{Signal, SignalKind};
