//! The command line as its users meet it: the real program, and a server that it starts or finds.

mod autostart;
mod config_sets;
mod down;
mod exits;
mod frameworks;
mod groups;
mod home;
mod images;
mod life;
mod output;
mod reconnect;
mod shapes;
mod strangers;
