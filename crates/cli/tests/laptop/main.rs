//! Clusters of real processes on one machine, under a real server: nothing is lost, and nothing is left.

mod bad_luck;
mod chaos;
mod client;
mod clusters;
mod config_sets;
mod dask;
mod draining;
mod healing;
mod images;
mod laptop;
mod limits;
mod listeners;
mod openstack;
mod process;
mod ray;
mod reboot;
mod recipes;
mod run;
mod scaler;
mod servers;
mod shown;
mod spark;
mod traces;
mod turns;
