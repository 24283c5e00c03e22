//! The AWS edge.
