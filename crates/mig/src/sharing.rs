//! How a card can be shared, and which way suits it: MIG, time-slicing, MPS,
//! vGPU, passthrough; on bare metal or in a virtual machine.
//!
//! The facts are data (`data/sharing.yaml`, and the catalogue for cards that support MIG), each with its
//! source; the rules are here, a sentence for each.

use std::fmt;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::catalog::Catalog;
use crate::model::{Model, product_label};
use crate::resource::{GpuResource, Unit};

/// A way to share a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// Slices with their own memory and multiprocessors.
    Mig,
    /// Pods take turns.
    TimeSlicing,
    /// Pods run side by side in one server process.
    Mps,
    /// Virtual machines share the card.
    Vgpu,
    /// One virtual machine has the whole card.
    Passthrough,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mig => "MIG",
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "MPS",
            Self::Vgpu => "vGPU",
            Self::Passthrough => "passthrough",
        })
    }
}

/// How well it suits a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Begin with this.
    Recommended,
    /// It works, for the purpose that the reason names.
    Possible,
    /// It does not work.
    Impossible,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Recommended => "recommended",
            Self::Possible => "possible",
            Self::Impossible => "no",
        })
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// A machine.
    BareMetal,
    /// A virtual machine that has whole cards.
    VirtualMachine,
    /// A virtual machine that has virtual GPUs.
    VgpuGuest,
    /// Nobody says.
    Unknown,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BareMetal => "bare metal",
            Self::VirtualMachine => "a virtual machine",
            Self::VgpuGuest => "a virtual machine with virtual GPUs",
            Self::Unknown => "bare metal, as far as labels say",
        })
    }
}

/// One line of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Of what.
    pub sharing: Sharing,
    /// Whether.
    pub verdict: Verdict,
    /// Why, in a sentence without its full stop.
    pub why: String,
    /// Where the fact comes from.
    pub source: &'static str,
}

/// A card that does not know MIG.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Its name in Slicewright, such as `T4`.
    pub id: String,
    /// The names that NVML reports.
    pub names: Vec<String>,
    /// Its generation.
    pub generation: String,
    compute_capability: String,
    /// Its memory, as it is sold.
    pub memory_gb: u32,
    /// Its memory, as nvidia-smi shows it.
    pub memory_mib: u32,
    #[serde(deserialize_with = "hexadecimal")]
    /// Its PCI device id (the vendor is always `10DE`).
    pub pci_device_id: u16,
    /// Whether its memory corrects errors.
    pub ecc: bool,
    /// Whether it has a display's connectors: a VGA controller.
    #[serde(default)]
    pub display: bool,
    /// Whether NVIDIA lists vGPU types for it.
    #[serde(default)]
    pub vgpu: bool,
}

/// A number as the PCI ID repository writes it, such as `0x1EB8`.
fn hexadecimal<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    let text = String::deserialize(from)?;
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    u16::from_str_radix(digits, 16)
        .map_err(|_| serde::de::Error::custom(format!("`{text}` is not a PCI device id such as 0x1EB8")))
}

impl Card {
    /// CUDA compute capability, major and minor.
    #[must_use]
    pub fn compute_capability(&self) -> (u8, u8) {
        let mut parts = self.compute_capability.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

/// How many pods MPS serves on one GPU at most.
pub const MPS_MOST: u32 = 48;
/// The same before [`MPS_SERVES_MANY`].
const MPS_MOST_OLD: u32 = 16;
/// From this compute capability on, MPS's control daemon lets [`MPS_MOST`]
/// share a GPU.
const MPS_SERVES_MANY: (u8, u8) = (7, 5);
/// From this compute capability on, those who share a GPU through MPS have an
/// address space each.
const VOLTA: (u8, u8) = (7, 0);

/// How many pods may share a GPU of a compute capability through MPS.
#[must_use]
pub fn most_by_mps(compute_capability: (u8, u8)) -> u32 {
    if compute_capability < MPS_SERVES_MANY { MPS_MOST_OLD } else { MPS_MOST }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    mig: String,
    #[serde(rename = "time-slicing")]
    time_slicing: String,
    mps: String,
    vgpu: String,
    passthrough: String,
    #[expect(dead_code, reason = "the file says where its figures come from")]
    compute_capability: String,
    #[expect(dead_code, reason = "the file says where its figures come from")]
    memory_gb: String,
    #[expect(dead_code, reason = "the file says where its figures come from")]
    memory_mib: String,
    #[expect(dead_code, reason = "the file says where its figures come from")]
    pci_device_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sources: Sources,
    vgpu_models: Vec<String>,
    cards: Vec<Card>,
}

fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| match serde_saphyr::from_str(include_str!("../data/sharing.yaml")) {
        Ok(file) => file,
        Err(error) => panic!("the embedded table is tested: {error}"),
    })
}

/// The cards that are known and do not know MIG.
#[must_use]
pub fn cards() -> &'static [Card] {
    &file().cards
}

/// A card as NVML, a label or a person names it.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// It knows MIG.
    Model(&'a Model),
    /// It does not.
    Card(&'a Card),
}

impl<'a> Known<'a> {
    /// Its name in Slicewright, such as `T4` or `A100-80GB`.
    #[must_use]
    pub const fn id(self) -> &'a str {
        match self {
            Self::Model(model) => model.id.as_str(),
            Self::Card(card) => card.id.as_str(),
        }
    }

    /// Whether it can have devices of a resource: whole GPUs, and slices of the profiles that it knows.
    #[must_use]
    pub fn has_resource(self, resource: &str) -> bool {
        match (GpuResource::parse(resource).map(|resource| resource.unit), self) {
            (Some(Unit::Gpu), _) => true,
            (Some(Unit::Slice(profile)), Self::Model(model)) => {
                model.geometry.profile_named(profile).is_some()
            }
            (Some(Unit::Slice(_) | Unit::UnknownSlice) | None, _) => false,
        }
    }

    /// How many pods may share one of its devices through MPS.
    #[must_use]
    pub fn most_by_mps(self) -> u32 {
        match self {
            Self::Card(card) => most_by_mps(card.compute_capability()),
            // Every card that knows MIG is newer than those that serve fewer.
            Self::Model(_) => MPS_MOST,
        }
    }
}

/// The card that a text means: an id, NVML's name, or the value of
/// `nvidia.com/gpu.product`. `None` for one that nobody has described.
#[must_use]
pub fn find(text: &str) -> Option<Known<'static>> {
    if let Ok(model) = Catalog::builtin().find(text) {
        return Some(Known::Model(model));
    }
    let text = text.trim();
    let text = text.strip_suffix("-SHARED").unwrap_or(text);
    let means = |card: &&Card| {
        let name = |name: &String| product_label(name).eq_ignore_ascii_case(&product_label(text));
        card.id.eq_ignore_ascii_case(text) || card.names.iter().any(name)
    };
    cards().iter().find(means).map(Known::Card)
}

/// What suits a card at a place, the best first.
#[must_use]
pub fn advise(card: Known<'_>, place: Place) -> Vec<Advice> {
    let mut advice = vec![mig(card, place), time_slicing(card, place), mps(card, place), vgpu(card, place)];
    advice.push(passthrough(place));
    advice.sort_by_key(|advice| (advice.verdict, advice.sharing));
    advice
}

fn mig(card: Known<'_>, place: Place) -> Advice {
    let source = file().sources.mig.as_str();
    let (verdict, why) = match (card, place) {
        (Known::Card(card), _) => (Verdict::Impossible, format!("NVIDIA's list of cards that know it does not have {}", card.id)),
        (Known::Model(_), Place::VgpuGuest) => (
            Verdict::Impossible,
            "a guest cannot cut the card; the host can, and hand out slices as MIG-backed vGPUs".to_owned(),
        ),
        (Known::Model(model), Place::BareMetal | Place::Unknown) => (
            Verdict::Recommended,
            format!(
                "up to {} slices, each with memory and multiprocessors of its own, so that nobody can disturb \
                 anybody; this is what Slicewright plans",
                model.geometry.compute()
            ),
        ),
        (Known::Model(_), Place::VirtualMachine) => (
            Verdict::Possible,
            "the machine has the whole card and can cut it; switching the mode on may need a restart of the machine"
                .to_owned(),
        ),
    };
    Advice { sharing: Sharing::Mig, verdict, why, source }
}

fn time_slicing(card: Known<'_>, place: Place) -> Advice {
    let (verdict, why) = match (card, place) {
        (Known::Card(_), Place::BareMetal | Place::Unknown) => (
            Verdict::Recommended,
            "pods take turns on the whole card; no memory of their own and no protection from each other's \
             failures, so for notebooks and bursts of people who trust each other"
                .to_owned(),
        ),
        (Known::Card(_), _) => (
            Verdict::Possible,
            "pods of this machine take turns on what it has; no memory of their own".to_owned(),
        ),
        (Known::Model(_), _) => (
            Verdict::Possible,
            "for more pods than there are slices: pods take turns on a slice, and share its memory"
                .to_owned(),
        ),
    };
    Advice { sharing: Sharing::TimeSlicing, verdict, why, source: &file().sources.time_slicing }
}

fn mps(card: Known<'_>, place: Place) -> Advice {
    let source = file().sources.mps.as_str();
    let of = |verdict, why: &str| Advice { sharing: Sharing::Mps, verdict, why: why.to_owned(), source };
    match card {
        _ if place == Place::VgpuGuest => {
            of(Verdict::Impossible, "the device plugin serves whole cards by it")
        }
        Known::Model(_) => of(
            Verdict::Impossible,
            "the device plugin refuses it beside MIG (strategy mixed, or any GPU with MIG on); use a node of its own \
             with MIG off",
        ),
        Known::Card(card) if card.compute_capability() < VOLTA => of(
            Verdict::Possible,
            "pods run side by side, at most 16; before compute capability 7.0 they share one address space, so a \
             mistake of one reaches the others",
        ),
        Known::Card(_) if card.most_by_mps() < MPS_MOST => of(
            Verdict::Possible,
            "pods run side by side, at most 16 (the control daemon allows more from compute capability 7.5), with \
             equal shares of memory and threads; a failure of one ends all; experimental in the device plugin",
        ),
        Known::Card(_) => of(
            Verdict::Possible,
            "pods run side by side, at most 48, with equal shares of memory and threads; a failure of one ends all; \
             experimental in the device plugin",
        ),
    }
}

fn vgpu(card: Known<'_>, place: Place) -> Advice {
    let listed = match card {
        Known::Model(model) => file().vgpu_models.contains(&model.id),
        Known::Card(card) => card.vgpu,
    };
    let (verdict, why) = match (listed, place) {
        (_, Place::VgpuGuest) => {
            (Verdict::Recommended, "this machine has it; its size is chosen on the host".to_owned())
        }
        (_, Place::BareMetal | Place::Unknown) => (
            Verdict::Impossible,
            "a virtual GPU is given to a virtual machine, and containers here run without one".to_owned(),
        ),
        (true, Place::VirtualMachine) => (
            Verdict::Recommended,
            "the host can divide the card between machines; it needs NVIDIA's host driver and a licence"
                .to_owned(),
        ),
        (false, Place::VirtualMachine) => {
            (Verdict::Impossible, "NVIDIA lists no vGPU types for this card".to_owned())
        }
    };
    Advice { sharing: Sharing::Vgpu, verdict, why, source: &file().sources.vgpu }
}

fn passthrough(place: Place) -> Advice {
    let (verdict, why) = match place {
        Place::VirtualMachine => (
            Verdict::Possible,
            "the whole card for this machine, as it is now; on a host with several cards, machines with whole cards \
             and machines with virtual GPUs are kept apart"
                .to_owned(),
        ),
        Place::VgpuGuest => (
            Verdict::Impossible,
            "this card is shared by virtual GPUs; a machine that needs a whole one gets another card".to_owned(),
        ),
        Place::BareMetal | Place::Unknown => (
            Verdict::Possible,
            "for virtual machines hosted here (OpenShift Virtualization): a card goes to one of them as a whole, \
             and containers share the others"
                .to_owned(),
        ),
    };
    Advice { sharing: Sharing::Passthrough, verdict, why, source: &file().sources.passthrough }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, place: Place, best: Sharing, never: &[Sharing]) {
        let card = find(text).unwrap_or_else(|| panic!("{text} is described"));
        let advice = advise(card, place);
        assert_eq!((advice[0].sharing, advice[0].verdict), (best, Verdict::Recommended), "{text} {place:?}");
        let impossible: Vec<Sharing> =
            advice.iter().filter(|a| a.verdict == Verdict::Impossible).map(|a| a.sharing).collect();
        assert_eq!(impossible, never, "{text} {place:?}");
        assert!(advice.iter().all(|a| !a.source.is_empty() && !a.why.ends_with('.')));
    }

    #[test]
    fn what_suits_depends_on_the_card_and_on_where_it_is() {
        use Sharing::{Mig, Mps, Passthrough, TimeSlicing, Vgpu};
        check("A100-80GB", Place::BareMetal, Mig, &[Mps, Vgpu]);
        check("NVIDIA-A100-SXM4-80GB", Place::VirtualMachine, Vgpu, &[Mps]);
        check("T4", Place::BareMetal, TimeSlicing, &[Mig, Vgpu]);
        check("Tesla-T4-SHARED", Place::VirtualMachine, Vgpu, &[Mig]);
        check("NVIDIA L4", Place::VgpuGuest, Vgpu, &[Mig, Mps, Passthrough]);
        check("P100", Place::Unknown, TimeSlicing, &[Mig, Vgpu]);
        assert!(find("RTX 9999").is_none());
    }

    #[test]
    fn a_card_has_whole_gpus_and_the_slices_of_its_profiles_and_serves_so_many_by_mps() {
        let known = |text| find(text).unwrap_or_else(|| panic!("{text} is described"));
        for (text, id, resource, has, most) in [
            ("Tesla-T4", "T4", "nvidia.com/gpu", true, 48),
            ("Tesla-T4", "T4", "nvidia.com/mig-1g.10gb", false, 48),
            ("V100-16GB", "V100-16GB", "nvidia.com/gpu.shared", true, 16),
            ("NVIDIA-A100-SXM4-80GB", "A100-80GB", "nvidia.com/mig-1g.10gb", true, 48),
            ("NVIDIA-A100-SXM4-80GB", "A100-80GB", "nvidia.com/mig-1g.5gb", false, 48),
            ("NVIDIA-A100-SXM4-80GB", "A100-80GB", "nvidia.com/mig-1c.3g.40gb", false, 48),
            ("NVIDIA-A100-SXM4-80GB", "A100-80GB", "example.com/nic", false, 48),
        ] {
            let card = known(text);
            assert_eq!(
                (card.id(), card.has_resource(resource), card.most_by_mps()),
                (id, has, most),
                "{resource}"
            );
        }
    }

    #[test]
    fn every_model_that_has_virtual_gpus_is_in_the_catalogue_and_no_card_is_in_both() {
        for id in &file().vgpu_models {
            assert!(Catalog::builtin().get(id).is_some_and(|model| model.id == *id), "{id}");
        }
        for card in cards() {
            assert!(card.compute_capability() >= (6, 0), "{}", card.id);
            for name in card.names.iter().chain([&card.id]) {
                assert!(Catalog::builtin().find(name).is_err(), "{name} knows MIG");
                assert!(matches!(find(name), Some(Known::Card(found)) if found.id == card.id), "{name}");
            }
        }
    }
}
