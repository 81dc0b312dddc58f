//! A release in two halves. [`bump`], [`home`], [`released`] and [`changelog`] write the next version into the checkout, which becomes
//! a commit that people review. [`chart`], [`images`], [`hub`], [`community`] and [`provenance`] say what is
//! published of it. Everything here is a function of texts and bytes: the program beside it reads the checkout and
//! talks to the registry. The same commit gives the same digests.

pub mod bump;
pub mod changelog;
pub mod chart;
pub mod community;
pub mod home;
pub mod hub;
pub mod images;
pub mod provenance;
pub mod released;
pub mod version;
