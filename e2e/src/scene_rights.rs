//! The rights of a scene's operators: what they have used, and what their settings need.

use controller::Settings;

use crate::rights::{grant, values_for};
use crate::scene::Scene;

impl Scene {
    /// Takes in which rights the operators have used.
    pub(crate) fn look_at_rights(&mut self) -> anyhow::Result<()> {
        if self.is_audited() {
            let requests = self.audit()?.requests()?;
            self.used.add(&requests);
        }
        Ok(())
    }

    /// Grants what these settings want and the operator does not have.
    ///
    /// # Errors
    /// When the API server does not take it.
    pub async fn grant_for(&mut self, settings: &Settings) -> anyhow::Result<()> {
        let values = values_for(settings);
        if values != self.values {
            grant(&self.client(), &values, Some(&self.values)).await?;
            self.values = values;
        }
        Ok(())
    }
}
