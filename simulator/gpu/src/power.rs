//! The power of a GPU, its energy, and the working time of its parts. A GPU is at rest, open or at work, depending on
//! its clients: its meter is read when that changes, and the energy between two readings is a product. So
//! the counters are exact, and a query changes nothing.

use jiff::Timestamp;

use crate::device::Gpu;
use crate::error::{NvmlError, Reply};
use crate::fault::Verb;
use crate::handle::Device;
use crate::machine::{Activity, Machine, Target};
use crate::meter::Meter;
use crate::question::Subject;
use crate::session::Nvml;

/// What a product may draw, by its data sheet.
struct Rating {
    /// The product's name, as NVML says it.
    product: &'static str,
    /// Total board power, in mW.
    power_mw: u32,
    /// The lowest limit that it takes, in W, where a capture shows it; the
    /// highest is that of the data sheet.
    least_w: Option<u32>,
    /// What one of them drew at rest, open and at work, in mW, where that was
    /// seen.
    seen_mw: Option<[u32; 3]>,
}

/// What a GPU has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// No program has a context on it.
    Rest,
    /// Programs have contexts on it and compute nothing: its clocks are up.
    Open,
    /// Programs compute on it.
    Work,
}

const fn rated(product: &'static str, power_w: u32, least_w: Option<u32>) -> Rating {
    Rating { product, power_mw: power_w * 1000, least_w, seen_mw: None }
}

impl Rating {
    const fn seen(self, at_rest_mw: u32, open_mw: u32, at_work_mw: u32) -> Self {
        Self { seen_mw: Some([at_rest_mw, open_mw, at_work_mw]), ..self }
    }
}

/// NVIDIA's data sheets and product briefs; where a line says so, what people's nvidia-smi printed.
const RATINGS: &[Rating] = &[
    rated("NVIDIA A100-PCIE-40GB", 250, Some(150)),
    rated("NVIDIA A100-SXM4-40GB", 400, Some(100)),
    rated("NVIDIA A100 80GB PCIe", 300, Some(150)),
    rated("NVIDIA A100-SXM4-80GB", 400, Some(100)),
    // Printed (evidence ids 36921727690, 52223953497, 69603632430).
    rated("NVIDIA A800-SXM4-80GB", 400, None),
    rated("NVIDIA A800-SXM4-40GB", 400, None),
    rated("NVIDIA A800 80GB PCIe", 300, None),
    rated("NVIDIA A800 40GB Active", 240, None),
    rated("NVIDIA A30", 165, Some(100)),
    rated("NVIDIA H100 PCIe", 350, Some(200)),
    // Printed (19173983937, 69706101187).
    rated("NVIDIA H800", 700, Some(200)),
    rated("NVIDIA H800 PCIe", 350, None),
    // With driver 580.159.04, and PyTorch at work.
    rated("NVIDIA H100 80GB HBM3", 700, Some(200)).seen(70_000, 119_000, 690_000),
    rated("NVIDIA H100 NVL", 400, Some(200)),
    rated("NVIDIA H200", 700, Some(200)).seen(82_000, 132_000, 692_000),
    rated("NVIDIA H200 NVL", 600, None),
    rated("NVIDIA GH200 480GB", 900, None),
    // Printed (35977969678): the same GPU beside less memory of its processor.
    rated("NVIDIA GH200 120GB", 900, None),
    // The lowest limit was printed (65756700163).
    rated("NVIDIA RTX PRO 6000 Blackwell Server Edition", 600, Some(300)),
    rated("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 600, None),
    rated("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 300, None),
    rated("Tesla P4", 75, None),
    rated("Tesla P40", 250, None),
    rated("Tesla P100-PCIE-16GB", 250, None),
    rated("Tesla P100-SXM2-16GB", 300, None),
    rated("Tesla V100-PCIE-16GB", 250, None),
    rated("Tesla V100-PCIE-32GB", 250, None),
    rated("Tesla V100-SXM2-16GB", 300, None),
    rated("Tesla V100-SXM2-32GB", 300, None),
    rated("Tesla T4", 70, Some(60)),
    rated("NVIDIA A2", 60, None),
    rated("NVIDIA A10", 150, None),
    rated("NVIDIA A10G", 300, None),
    // A board of 250 W has four of them. Printed without the half (18830180938).
    Rating { product: "NVIDIA A16", power_mw: 62_500, least_w: None, seen_mw: None },
    rated("NVIDIA A40", 300, None),
    rated("NVIDIA L4", 72, Some(40)),
    rated("NVIDIA L20", 275, None),
    rated("NVIDIA L40", 300, Some(100)),
    rated("NVIDIA L40S", 350, Some(100)),
];

/// How much a GPU or a GPU instance had worked at a moment: what lies between
/// two of them is its utilisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The moment.
    pub at: Timestamp,
    /// Time at work, in µs, added up over its compute slices.
    pub slice_us: u64,
    /// Its compute slices.
    pub slices: u8,
}

impl Work {
    /// The share of the time since `before` during which it worked, in percent;
    /// none where no time passed, or where `before` is of something else.
    #[must_use]
    pub fn percent_since(self, before: Self) -> Option<f64> {
        let passed = microseconds(before.at, self.at);
        if passed == 0 || before.slices != self.slices {
            return None;
        }
        let worked = self.slice_us.checked_sub(before.slice_us)?;
        Some(worked as f64 * 100.0 / (passed as f64 * f64::from(self.slices)))
    }
}

fn microseconds(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_microsecond() - from.as_microsecond()).unwrap_or(0)
}

impl Gpu {
    fn rating(&self) -> Option<&'static Rating> {
        // The whole name: an H200 NVL is not an H200.
        RATINGS.iter().find(|rating| rating.product == self.model.product)
    }

    /// The power limit that it is delivered with, in mW, where a data sheet
    /// says.
    #[must_use]
    pub fn default_power_limit_mw(&self) -> Option<u32> {
        self.rating().map(|rating| rating.power_mw)
    }

    /// The power limit that is in force, in mW.
    #[must_use]
    pub fn power_limit_mw(&self) -> Option<u32> {
        self.power_limit_mw.or_else(|| self.default_power_limit_mw())
    }

    /// The lowest and the highest power limit that it takes, in mW, where a
    /// capture shows them.
    #[must_use]
    pub fn power_limits_mw(&self) -> Option<(u32, u32)> {
        let rating = self.rating()?;
        Some((rating.least_w? * 1000, rating.power_mw))
    }

    /// What it draws, in mW, at rest, open or at work: what was seen of its kind,
    /// else a sixth, a fifth or four fifths of its board power; and never more
    /// than its limit.
    #[must_use]
    pub fn power_mw(&self, load: Load) -> Option<u32> {
        let full = self.default_power_limit_mw()?;
        let [rest, open, work] = self.rating()?.seen_mw.unwrap_or([full / 6, full / 5, full / 5 * 4]);
        let draws = match load {
            Load::Rest => rest,
            Load::Open => open,
            Load::Work => work,
        };
        Some(draws.min(self.power_limit_mw()?))
    }
}

impl Machine {
    fn load(&self, gpu: u16) -> Load {
        let on = self.clients.values().filter(|client| client.target.gpu() == gpu);
        let load = on.map(|client| match client.activity {
            Activity::Watches => Load::Rest,
            Activity::Idles => Load::Open,
            Activity::Computes => Load::Work,
        });
        load.max().unwrap_or(Load::Rest)
    }

    fn computes(&self, at: impl Fn(Target) -> bool) -> bool {
        self.clients.values().any(|client| client.activity == Activity::Computes && at(client.target))
    }

    /// Reads a GPU's meter: what was until now is counted as it was. To be
    /// called before anything changes that it counts.
    pub(crate) fn read_meter(&mut self, gpu: u16) {
        let Some(device) = self.gpu(gpu) else { return };
        let meter = self.meter_at(gpu, device, self.now);
        let busy: Vec<_> = device
            .mig_devices()
            .map(|(gi, ci)| (gi.id, ci.id, self.busy_us(gpu, device, (gi.id, ci.id), self.now)))
            .collect();
        let device = &mut self.gpus[usize::from(gpu)];
        device.meter = meter;
        for (gi, ci, busy_us) in busy {
            let ci = device.instances.get_mut(&gi).and_then(|gi| gi.compute.get_mut(&ci));
            ci.expect("it is there").busy_us = busy_us;
        }
    }

    /// The meter at a moment after the last reading.
    fn meter_at(&self, index: u16, gpu: &Gpu, at: Timestamp) -> Meter {
        let Meter { at: read, energy_uj, busy_us, awake_us } = gpu.meter;
        let passed = microseconds(read, at);
        let load = self.load(index);
        let counted = |counts: bool| if counts { passed } else { 0 };
        // mW and µs make nJ.
        let drawn = u64::from(gpu.power_mw(load).unwrap_or(0)).saturating_mul(passed) / 1000;
        Meter {
            at: read.max(at),
            energy_uj: energy_uj.saturating_add(drawn),
            busy_us: busy_us.saturating_add(counted(load == Load::Work)),
            awake_us: awake_us.saturating_add(counted(load >= Load::Open)),
        }
    }

    /// How long a compute instance has worked, in µs.
    fn busy_us(&self, index: u16, gpu: &Gpu, (gi, ci): (u8, u8), at: Timestamp) -> u64 {
        let instance = gpu.instances.get(&gi).and_then(|gi| gi.compute.get(&ci));
        let before = instance.map_or(0, |ci| ci.busy_us);
        let busy = self.computes(|target| target == Target::ComputeInstance(index, gi, ci));
        before.saturating_add(if busy { microseconds(gpu.meter.at, at) } else { 0 })
    }
}

impl Subject<'_> {
    /// Whether somebody computes on it.
    #[must_use]
    pub fn is_busy(self) -> bool {
        self.clients().any(|client| client.activity == Activity::Computes)
    }

    /// What it has to do: for a MIG device, what its own clients do.
    #[must_use]
    pub fn load(self) -> Load {
        let awake = self.clients().any(|client| client.activity.has_context());
        match (self.is_busy(), awake) {
            (true, _) => Load::Work,
            (false, true) => Load::Open,
            (false, false) => Load::Rest,
        }
    }

    /// What the GPU has drawn since its driver was loaded, in mJ.
    ///
    /// # Errors
    /// `NotSupported` where no data sheet says what it draws.
    pub fn energy_mj(self, at: Timestamp) -> Reply<u64> {
        self.gpu.default_power_limit_mw().ok_or(NvmlError::NotSupported)?;
        Ok(self.machine.meter_at(self.index, self.gpu, at).energy_uj / 1000)
    }

    /// How long its clocks were down since its host was booted, in µs: nobody had
    /// a context on it. With MIG on, how long nobody has computed, as for
    /// [`Self::idle_us`]: what hardware counts then was not seen.
    #[must_use]
    pub fn rest_us(self, at: Timestamp) -> u64 {
        if self.gpu.mig_is_on() {
            return self.idle_us(at);
        }
        let awake_us = self.machine.meter_at(self.index, self.gpu, at).awake_us;
        microseconds(self.machine.booted, at).saturating_sub(awake_us)
    }

    /// How long nobody has computed on it since the host was booted, in µs: with MIG
    /// on, its slices by their sizes.
    #[must_use]
    pub fn idle_us(self, at: Timestamp) -> u64 {
        let Work { at: _, slice_us, slices } = self.work(at);
        microseconds(self.machine.booted, at).saturating_sub(slice_us / u64::from(slices.max(1)))
    }

    /// How much the whole GPU has worked: with MIG on, its slices by their
    /// sizes.
    #[must_use]
    pub fn work(self, at: Timestamp) -> Work {
        let Some(geometry) = self.gpu.geometry().filter(|_| self.gpu.mig_is_on()) else {
            let slice_us = self.machine.meter_at(self.index, self.gpu, at).busy_us;
            return Work { at, slice_us, slices: 1 };
        };
        let each = self.gpu.instances.keys().filter_map(|gi| self.slice_us(*gi, at));
        let slice_us = each.fold(0, u64::saturating_add);
        Work { at, slice_us, slices: geometry.compute() }
    }

    /// How much a GPU instance has worked; none where there is no such one.
    #[must_use]
    pub fn work_of_instance(self, gi: u8, at: Timestamp) -> Option<Work> {
        let instance = self.gpu.instances.get(&gi)?;
        Some(Work { at, slice_us: self.slice_us(gi, at)?, slices: self.gpu.profile_of(instance).slices })
    }

    fn slice_us(self, gi: u8, at: Timestamp) -> Option<u64> {
        let instance = self.gpu.instances.get(&gi)?;
        let busy_us = |id| self.machine.busy_us(self.index, self.gpu, (gi, id), at);
        let each = instance.compute.values().map(|ci| busy_us(ci.id).saturating_mul(ci.slices.into()));
        Some(each.fold(0, u64::saturating_add))
    }
}

impl Nvml<'_> {
    /// Sets the power limit, in mW. It lasts until the driver is loaded anew.
    ///
    /// # Errors
    /// `NoPermission`; `NotSupported` where nobody knows the card's limits;
    /// `InvalidArgument` outside of them.
    pub fn set_power_limit(&mut self, device: Device, milliwatts: u32) -> Reply<()> {
        self.initialised()?;
        let gpu = self.whole(device)?;
        let work = |nvml: &mut Self| {
            nvml.privileged()?;
            let (least, most) = nvml.state(gpu).power_limits_mw().ok_or(NvmlError::NotSupported)?;
            if !(least..=most).contains(&milliwatts) {
                return Err(NvmlError::InvalidArgument);
            }
            nvml.machine.read_meter(gpu);
            nvml.machine.gpus[usize::from(gpu)].power_limit_mw = Some(milliwatts);
            Ok(())
        };
        self.faulted(Verb::SetPowerLimit, gpu, work, |_| ())
    }
}
