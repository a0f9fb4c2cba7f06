mod fixture;
mod overview;
mod plan;
mod transitions;
