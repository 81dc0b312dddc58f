//! A question to the solver is known by its SHA-256: a program of a large fleet is megabytes, and its answer is not.

use std::hash::{Hash, Hasher};

use sha2::{Digest, Sha256};

/// The SHA-256 of a question.
pub(super) type Question = [u8; 32];

/// The question that consists of these parts.
pub(super) fn digest(question: &impl Hash) -> Question {
    let mut hasher = Sha(Sha256::new());
    question.hash(&mut hasher);
    hasher.0.finalize().into()
}

/// SHA-256 of everything that is hashed.
struct Sha(Sha256);

impl Hasher for Sha {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
