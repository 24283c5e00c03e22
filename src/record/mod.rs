//! The record of a Node: what was taken on, as an annotation.
