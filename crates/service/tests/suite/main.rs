//! What the use cases promise, over a real engine and a real database.

mod fixture;

mod authorization;
mod receivers;
mod replay;
