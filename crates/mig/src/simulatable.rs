//! Which models can be simulated: those of which every figure is known that a simulated GPU reports.

use crate::catalog::Catalog;
use crate::model::Model;

/// Why a model cannot be simulated: figures that a simulated GPU must report
/// and that nobody has seen. It can be planned for all the same. Why each
/// figure is missing stands in the reference of the models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{model} cannot be simulated, because no source gives {}; it can be planned for{}",
    missing.join(", nor "),
    instead.as_ref().map(|model| format!(", and {model}, which has the same grid, can be simulated")).unwrap_or_default()
)]
pub struct NotSimulatable {
    /// The model.
    pub model: String,
    /// What is missing: of the GPU, then of its profiles together.
    pub missing: Vec<String>,
    /// A model with the same grid that can be simulated.
    pub instead: Option<String>,
}

impl Model {
    /// Whether enough is known to simulate it: all that a simulated GPU must
    /// answer when it is asked.
    ///
    /// # Errors
    /// Says what is missing, and which model can be simulated instead.
    pub fn simulatable(&self) -> Result<(), NotSimulatable> {
        let missing = self.missing();
        if missing.is_empty() {
            return Ok(());
        }
        let like = |model: &&Self| {
            model.geometry.memory() == self.geometry.memory()
                && model.geometry.compute() == self.geometry.compute()
                && model.missing().is_empty()
        };
        let nearest = |model: &&Self| {
            let memory = |model: &Self| model.total_memory_mib.unwrap_or_default();
            (model.architecture != self.architecture, memory(model).abs_diff(memory(self)))
        };
        let instead = Catalog::builtin().models().iter().filter(like).min_by_key(nearest);
        Err(NotSimulatable { model: self.id.clone(), missing, instead: instead.map(|m| m.id.clone()) })
    }

    /// What a simulated GPU must report and nobody has seen.
    fn missing(&self) -> Vec<String> {
        let of_gpu = [
            (!self.names.is_empty(), "the name that NVML reports"),
            (self.total_memory_mib.is_some(), "its total memory"),
            (self.sm_count.is_some(), "its SM count"),
        ];
        let mut missing: Vec<String> =
            of_gpu.iter().filter(|(present, _)| !present).map(|(_, what)| (*what).to_owned()).collect();
        let mut fields: Vec<&str> = Vec::new();
        let mut incomplete = 0;
        for profile in &self.profiles {
            let of_profile = [
                (profile.profile_id.is_some(), "id"),
                (profile.sm.is_some(), "SMs"),
                (profile.memory_mib.is_some(), "memory"),
                (profile.engines.is_complete(), "engines"),
            ];
            incomplete += usize::from(of_profile.iter().any(|(present, _)| !present));
            for (_, what) in of_profile.iter().filter(|(present, _)| !present) {
                if !fields.contains(what) {
                    fields.push(what);
                }
            }
        }
        if let Some((last, others)) = fields.split_last() {
            let and = if others.is_empty() { "" } else { " and " };
            let all = self.profiles.len();
            missing.push(format!("{}{and}{last} of {incomplete} of its {all} profiles", others.join(", ")));
        }
        missing
    }
}
