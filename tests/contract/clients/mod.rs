//! Programs that nobody here wrote, at work with the embedded servers.

mod aws;
mod describes;
mod kubectl;
