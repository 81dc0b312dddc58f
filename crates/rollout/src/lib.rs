//! The state machine that takes one node safely from one layout to another. Pure.
