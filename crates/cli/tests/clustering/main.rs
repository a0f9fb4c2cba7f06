//! The clustering API of a real server over HTTP, on both databases.

mod access;
mod actions;
mod clusters;
mod health;
mod hooks;
mod identity;
mod lists;
mod local_code;
mod membership;
mod nodes;
mod openstack;
mod pods;
mod policies;
mod profiles;
mod receivers;
mod requests;
mod resize;
mod server;
mod tenants;
mod updates;
mod versions;
