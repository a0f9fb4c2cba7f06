//! Tests with real processes under real shims.

mod generations;
mod harness;
mod losses;
mod output;
mod restarts;
mod starts;
mod stops;
