//! Fleets for tests and benchmarks, in the families of planning problems that the planner is measured on.
//! They are synthetic, and harder than real fleets. The same arguments give the same problem.

pub mod rooms;

use mig::{Geometry, Layout, ProfileSpec};

use crate::problem::{Demand, Gpu, Model, Problem};

/// How a fleet came to be what it is, and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Slices came and went; demand is of all sizes.
    Churn,
    /// Few large profiles, as in a public trace of GPU requests.
    Alibaba,
    /// Random states, random demand.
    Random,
    /// Demand is what a hidden choice of layouts supplies: all can be served.
    Planted,
    /// One small slice on each GPU, where it is most in the way of large ones.
    FragTrap,
    /// Idle slices everywhere, of the wrong size.
    WrongIdle,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Churn, Self::Alibaba, Self::Random, Self::Planted, Self::FragTrap, Self::WrongIdle];
}

/// A small deterministic generator of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is not 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    const fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn model(name: &str, memory: u8, compute: u8, profiles: &[(&str, u8, u8, &[u8])]) -> Model {
    let profiles = profiles
        .iter()
        .map(|(name, compute, size, starts)| ProfileSpec {
            name: name.parse().expect("the tables below are profile names"),
            compute: *compute,
            size: *size,
            starts: starts.to_vec(),
        })
        .collect();
    let geometry = Geometry::new(memory, compute, profiles).expect("the tables below are geometries");
    Model { name: name.to_owned(), geometry }
}

/// The models of generated fleets: two of one geometry and names, and a small one.
#[must_use]
pub fn models() -> Vec<Model> {
    let large = |name| {
        model(
            name,
            8,
            7,
            &[
                ("1g.10gb", 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
                ("1g.20gb", 1, 2, &[0, 2, 4, 6]),
                ("2g.20gb", 2, 2, &[0, 2, 4]),
                ("3g.40gb", 3, 4, &[0, 4]),
                ("4g.40gb", 4, 4, &[0]),
                ("7g.80gb", 7, 8, &[0]),
            ],
        )
    };
    let small = model(
        "A30",
        4,
        4,
        &[("1g.6gb", 1, 1, &[0, 1, 2, 3]), ("2g.12gb", 2, 2, &[0, 2]), ("4g.24gb", 4, 4, &[0])],
    );
    vec![large("A100-80GB"), small, large("H100-80GB")]
}

/// A layout that is filled slice by slice, at random.
fn fill(geometry: &Geometry, from: Layout, stop_percent: u64, numbers: &mut Numbers) -> Layout {
    let mut layout = from;
    loop {
        let free: Vec<_> = geometry.free(layout).iter().collect();
        if free.is_empty() || numbers.percent(stop_percent) {
            return layout;
        }
        layout = layout.with(free[numbers.below(free.len() as u64) as usize]);
    }
}

/// A problem of a family, with so many GPUs.
#[must_use]
pub fn generate(family: Family, gpus: usize, seed: u64) -> Problem {
    let models = models();
    let mut numbers = Numbers::new(seed.wrapping_mul(0x1_0001).wrapping_add(family as u64));
    let occupancy = 30 + 10 * numbers.below(5);
    let load = 60 + 10 * numbers.below(6);
    let mut demand = std::collections::BTreeMap::new();
    let fleet: Vec<Gpu> = (0..gpus)
        .map(|g| {
            let m = match numbers.below(10) {
                0..5 => 0,
                5..8 => 2,
                _ => 1,
            };
            let geometry = &models[m].geometry;
            let full = match family {
                Family::FragTrap => {
                    let last = geometry.placements().filter(|p| geometry.units(*p).count_ones() == 1);
                    let last: Vec<_> = last.collect();
                    Layout::EMPTY.with(last[numbers.below(last.len() as u64) as usize])
                }
                Family::Alibaba => fill(geometry, Layout::EMPTY, 60, &mut numbers),
                _ => fill(geometry, Layout::EMPTY, 20, &mut numbers),
            };
            let (mut in_use, mut idle) = (Layout::EMPTY, Layout::EMPTY);
            for placement in full.iter() {
                let used = match family {
                    Family::WrongIdle => 20,
                    Family::FragTrap => 90,
                    _ => occupancy,
                };
                if numbers.percent(used) {
                    in_use = in_use.with(placement);
                } else if family == Family::WrongIdle || numbers.percent(60) {
                    idle = idle.with(placement);
                }
            }
            // What the rest of this GPU could be cut into becomes demand.
            let could = fill(geometry, in_use, 0, &mut numbers).difference(in_use);
            for placement in could.iter() {
                let (profile, _) = geometry.describe(placement);
                let wanted = match family {
                    Family::Planted => true,
                    Family::Alibaba => profile.compute > 1 && numbers.percent(load),
                    _ => numbers.percent(load.min(95)),
                };
                if wanted {
                    *demand.entry(profile).or_insert(0) += 1;
                }
            }
            Gpu { id: format!("n{:05}/gpu{}", g / 8, g % 8), model: m, in_use, idle }
        })
        .collect();
    let weights = numbers.below(3);
    let demand = demand
        .into_iter()
        .map(|(profile, count)| {
            let extra =
                if load > 100 && family != Family::Planted { count * (load as i64 - 100) / 100 } else { 0 };
            let weight = match weights {
                0 => 1,
                1 => i64::from(profile.compute),
                _ => [1, 2, 3, 5, 8, 10, 20, 50][numbers.below(8) as usize],
            };
            Demand { profile, count: count + extra, weight }
        })
        .collect();
    Problem { name: Some(format!("{family:?}-{gpus}-{seed}")), models, gpus: fleet, demand }
}

/// Changes one slice of one GPU: takes an idle one away, or adds one in use.
pub fn change_one_slice(problem: &mut Problem, numbers: &mut Numbers) {
    let g = numbers.below(problem.gpus.len() as u64) as usize;
    let gpu = &mut problem.gpus[g];
    let geometry = &problem.models[gpu.model].geometry;
    if let Some(idle) = gpu.idle.iter().next() {
        gpu.idle = gpu.idle.without(idle);
    } else if let Some(used) = gpu.in_use.iter().next() {
        gpu.in_use = gpu.in_use.without(used);
    } else if let Some(free) = geometry.free(Layout::EMPTY).iter().next() {
        gpu.in_use = gpu.in_use.with(free);
    }
}
