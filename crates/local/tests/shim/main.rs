//! Real processes under real shims.

mod fixture;
mod generations;
mod losses;
mod output;
mod restarts;
mod starts;
mod stops;
