//! Programs that nobody here wrote, at work with the embedded servers; and our own commands and
//! clients at work with a server that nobody here wrote.

mod account;
mod aws;
mod describes;
mod groups;
mod kubectl;
mod people;
mod readings;
