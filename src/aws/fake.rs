//! A minimal AWS for the tests of this room.
