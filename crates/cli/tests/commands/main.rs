//! Tests of the commands with the real program and a server that it starts or finds.

mod autostart;
mod completion;
mod config_sets;
mod contexts;
mod down;
mod everyday;
mod exits;
mod frameworks;
mod groups;
mod harness;
mod images;
mod life;
mod manifests;
mod observe;
mod other_servers;
mod output;
mod reading;
mod reconnect;
mod run;
mod shapes;
mod usage;
