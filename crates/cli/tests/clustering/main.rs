//! The clustering API as its clients meet it: a real server, plain HTTP, on both databases.

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
mod service;
mod tenants;
mod updates;
mod versions;
