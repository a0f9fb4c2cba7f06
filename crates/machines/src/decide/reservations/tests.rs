mod fixture;
mod plan;
mod transitions;
