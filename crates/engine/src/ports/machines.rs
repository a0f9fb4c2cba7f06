//! Machines: nodes whose slots are reserved for guests. They are served beside the engine.

/// What serves machines.
pub trait MachineProvider: Send + Sync {
    /// Why guests are not admitted now.
    fn readiness(&self) -> Result<(), String>;
}
