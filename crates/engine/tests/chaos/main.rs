//! Engines that are killed, paused and taken over, databases that are unavailable: afterwards rows and world agree.
//!
//! Engines and the world are processes of their own here. `MUSTER_CHAOS_KILLS` says how many are killed at random
//! moments, `MUSTER_CHAOS_SEED` repeats a run.

mod blackouts;
mod databases;
mod disk;
mod facts;
mod faults;
mod handover;
mod harness;
mod kills;
mod pauses;
mod replicas;
