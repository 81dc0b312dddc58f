//! The integration tests of this crate, in one program: each module is one file of tests.

mod argocd;
mod guides;
