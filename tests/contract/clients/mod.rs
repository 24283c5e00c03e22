//! Third-party clients against the embedded servers, and our own commands and clients against a
//! third-party server.

mod account;
mod aws;
mod describes;
mod groups;
mod kubectl;
mod people;
mod readings;
