//! The custom resources, compatible with those of the published operator, with both spellings of its fields.

mod conditions;
mod crds;
mod machine;
mod node_pool;
mod rules;

pub use conditions::{CAPACITY_SHORT, NODE_POOL_READY, READY, WantedCondition, merge_conditions, ready};
pub use crds::{crds, stores_all_fields};
pub use machine::{
    AvailableMachine, Booking, Gpu, Machine, MachineSpec, MachineStatus, MachineType, Mode, NodePoolEntry,
    Overflow, TypeAmounts, TypeName, Usage,
};
pub use node_pool::{
    MachineNodePool, MachineNodePoolSpec, MachineNodePoolStatus, NodeCondition, PoolNodeStatus,
};
