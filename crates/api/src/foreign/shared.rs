//! Values that many objects have in common.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is kept once for all that have it. It is read, compared and written as the value itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// A value that nobody else has yet.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// The one that others have, in the place of an equal one.
    #[must_use]
    pub const fn of(value: Arc<T>) -> Self {
        Self(value)
    }

    /// What is shared.
    #[must_use]
    pub const fn inner(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Clone> Shared<T> {
    /// The value alone.
    #[must_use]
    pub fn into_value(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::serialize(&self.0, serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::new)
    }
}
