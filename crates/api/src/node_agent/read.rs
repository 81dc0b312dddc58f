//! From the terms of the API to those of `slicewright-agent`.

use std::collections::{BTreeMap, BTreeSet};

use agent::position::Difference;
use agent::{
    Account, Act, Books, BootId, ChangeId, ChangeState, DeviceId, Gate, GateReport, GpuChange, GpuLayout,
    GpuState, GpuUuid, Known, NodeLayout, Outcome, Permit, Place, PodUid, ReportNumber, Slice, SliceName,
    Stage, Why, Wish,
};

use super::{
    AgentChange, AgentStatus, ChangeStage, ChangeTrouble, ChangedGpu, GateState, Holder, NodeChange,
    TroubleReason,
};
use crate::gpu_node::{GpuNodeStatus, Observed, ObservedBy, ObservedGpu};
use crate::wanted::WantedSlice;

/// What cannot be read as one of our own writers wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is `{value}`; {allowed}")]
pub struct Malformed {
    /// The field.
    pub field: &'static str,
    /// What it has.
    pub value: String,
    /// What it may have.
    pub allowed: &'static str,
}

fn malformed(field: &'static str, value: impl ToString, allowed: &'static str) -> Malformed {
    Malformed { field, value: value.to_string(), allowed }
}

/// What the agent of a node wrote last; `None` where none ever did. An account
/// whose observation was overwritten by the controller knows nothing.
///
/// # Errors
/// Says which field no agent writes like this.
pub fn account(status: &GpuNodeStatus) -> Result<Option<Account>, Malformed> {
    let Some(AgentStatus { pod_uid, boot_id, report, gate, change, .. }) = &status.agent else {
        return Ok(None);
    };
    let observed = status.observed.as_ref().filter(|observed| observed.by == ObservedBy::Agent);
    let known = match observed {
        Some(observed) => known(observed)?,
        None => Known {
            layout: NodeLayout::default(),
            books: Books::told(
                BTreeMap::new(),
                BTreeSet::new(),
                Some("the controller observes the node".to_owned()),
            ),
        },
    };
    Ok(Some(Account {
        report: number("status.agent.report", *report)?,
        agent: PodUid(pod_uid.clone()),
        boot: BootId(boot_id.clone()),
        gate: gate.as_ref().map(|gate| GateReport {
            change: ChangeId(gate.change.clone()),
            gate: match gate.state {
                GateState::Closed => Gate::Closed,
                GateState::Ajar => Gate::Ajar,
                GateState::Open => Gate::Open,
            },
        }),
        known,
        change: change.as_ref().map(change_state).transpose()?,
    }))
}

/// How far the agent's last change is, whatever else of its status cannot be
/// read; `None` where there was none, or where this cannot be read either.
#[must_use]
pub fn stage_told(agent: &AgentStatus) -> Option<ChangeState> {
    change_state(agent.change.as_ref()?).ok()
}

fn number(field: &'static str, number: i64) -> Result<ReportNumber, Malformed> {
    let valid = u64::try_from(number).map_err(|_| malformed(field, number, "0 or more is allowed"))?;
    Ok(ReportNumber(valid))
}

fn change_state(change: &AgentChange) -> Result<ChangeState, Malformed> {
    let AgentChange { id, boot_id, stage, why } = change;
    let why = || {
        let why = why.as_ref().ok_or_else(|| {
            malformed("status.agent.change.why", "nothing", "a change that does not succeed has a reason")
        });
        why.and_then(self::why)
    };
    let stage = match stage {
        ChangeStage::Claimed => Stage::Claimed,
        ChangeStage::Restoring => Stage::Restoring { why: why()? },
        ChangeStage::Done => Stage::Ended(Outcome::Done),
        ChangeStage::Restored => Stage::Ended(Outcome::Restored { why: why()? }),
        ChangeStage::Refused => Stage::Ended(Outcome::Refused { why: why()? }),
        ChangeStage::Left => Stage::Ended(Outcome::Left { why: why()? }),
    };
    Ok(ChangeState { id: ChangeId(id.clone()), boot: BootId(boot_id.clone()), stage })
}

fn why(trouble: &ChangeTrouble) -> Result<Why, Malformed> {
    let ChangeTrouble { reason, message: _, gpu, slice, detail } = trouble;
    let gpu = || {
        let gpu = gpu.clone().map(GpuUuid);
        gpu.ok_or_else(|| malformed("status.agent.change.why.gpu", "nothing", "this reason has a GPU"))
    };
    let detail = detail.clone().unwrap_or_default();
    let driver = |act| {
        let slice = slice.as_ref().ok_or_else(|| {
            malformed("status.agent.change.why.slice", "nothing", "this reason has a slice")
        })?;
        let place = place("status.agent.change.why.slice", slice)?;
        Ok(Why::Driver { act, slice: SliceName { gpu: gpu()?, place }, said: detail.clone() })
    };
    Ok(match reason {
        TroubleReason::TooManyGpus => {
            let count = detail.parse();
            let count = count.map_err(|_| {
                malformed("status.agent.change.why.detail", &detail, "this reason has a number here")
            })?;
            Why::Malformed(agent::Malformed::TooManyGpus { count })
        }
        TroubleReason::TooManySlices => Why::Malformed(agent::Malformed::TooManySlices { gpu: gpu()? }),
        TroubleReason::GpuTwice => Why::Malformed(agent::Malformed::Twice { gpu: gpu()? }),
        TroubleReason::NotAsPlanned => Why::Differs(Difference { gpu: gpu()?, found: detail }),
        TroubleReason::DriverSilent => Why::Silent { gpu: gpu()? },
        TroubleReason::CalledBack => Why::CalledBack,
        TroubleReason::ChangeGone => Why::WishGone,
        TroubleReason::Rebooted => Why::Rebooted,
        TroubleReason::NotDestroyed => driver(Act::Destroy)?,
        TroubleReason::NotCreated => driver(Act::Create)?,
    })
}

fn place(field: &'static str, slice: &WantedSlice) -> Result<Place, Malformed> {
    let WantedSlice { profile, start } = slice;
    let named = profile.parse();
    Ok(Place {
        profile: named.map_err(|_| malformed(field, profile, "a profile such as `1g.10gb` is allowed"))?,
        start: u8::try_from(*start)
            .map_err(|_| malformed(field, start, "a start between 0 and 255 is allowed"))?,
    })
}

/// What the agent knew of the node.
fn known(observed: &Observed) -> Result<Known, Malformed> {
    let mut holders = BTreeMap::new();
    let mut gpus = Vec::new();
    for gpu in &observed.gpus {
        gpus.push(gpu_layout(gpu, &mut holders)?);
    }
    gpus.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    let doubts = observed.doubts.clone().unwrap_or_default();
    for unknown in doubts.unknown_devices {
        enter(&mut holders, &DeviceId(unknown.id), &unknown.holders)?;
    }
    let twice = doubts.held_twice.into_iter().map(DeviceId).collect();
    Ok(Known { layout: NodeLayout { gpus }, books: Books::told(holders, twice, doubts.books_unreadable) })
}

type Holders = BTreeMap<DeviceId, BTreeSet<agent::Holder>>;

fn enter(all: &mut Holders, device: &DeviceId, holders: &[Holder]) -> Result<(), Malformed> {
    for Holder { namespace, pod, uid, container, device: of_several } in holders {
        let device = of_several.clone().map_or_else(|| device.clone(), DeviceId);
        let container = container.clone();
        let holder = match (namespace.clone(), pod.clone(), uid.clone()) {
            (Some(namespace), Some(pod), None) => agent::Holder::Listed { namespace, pod, container },
            (None, None, Some(uid)) => agent::Holder::Recorded { pod: PodUid(uid), container },
            _ => {
                let allowed = "a holder has either namespace and pod, or uid";
                return Err(malformed("holders", container, allowed));
            }
        };
        all.entry(device).or_default().insert(holder);
    }
    Ok(())
}

fn gpu_layout(gpu: &ObservedGpu, holders: &mut Holders) -> Result<GpuLayout, Malformed> {
    let uuid = gpu.uuid.clone().map(GpuUuid);
    let uuid = uuid.ok_or_else(|| malformed("status.observed.gpus.uuid", "nothing", "an agent knows it"))?;
    enter(holders, &DeviceId(uuid.0.clone()), &gpu.holders)?;
    let mut slices = Vec::new();
    for slice in &gpu.slices {
        let start = slice
            .start
            .ok_or_else(|| malformed("status.observed.gpus.slices.start", "nothing", "an agent knows it"))?;
        let profile = slice.profile.clone();
        let place = place("status.observed.gpus.slices", &WantedSlice { profile, start })?;
        let devices: Vec<_> = slice.devices.iter().cloned().map(DeviceId).collect();
        match devices.first() {
            Some(device) => enter(holders, device, &slice.holders)?,
            None if slice.holders.is_empty() => {}
            None => {
                let allowed = "a slice without a device has no holder";
                return Err(malformed("status.observed.gpus.slices.holders", &slice.profile, allowed));
            }
        }
        slices.push(Slice { place, devices, busy: slice.unexplained });
    }
    let state = match (&gpu.driver_error, gpu.mig_enabled) {
        (Some(why), _) => GpuState::Silent { why: why.clone() },
        (None, true) => GpuState::Cut(slices),
        (None, false) => GpuState::Whole,
    };
    Ok(GpuLayout { uuid, state })
}

/// What the controller wants of the agent.
///
/// # Errors
/// Says which field no controller writes like this.
pub fn wish(change: &NodeChange) -> Result<Wish, Malformed> {
    let NodeChange { id, permit, gpus } = change;
    let permit = permit.as_ref().map(|permit| {
        let report = number("spec.change.permit.report", permit.report)?;
        Ok(Permit { report, gone: permit.gone.iter().cloned().map(PodUid).collect() })
    });
    let places = |field, slices: &[WantedSlice]| -> Result<BTreeSet<_>, Malformed> {
        slices.iter().map(|slice| place(field, slice)).collect()
    };
    let gpu = |ChangedGpu { uuid, before, after }: &ChangedGpu| {
        let before = places("spec.change.gpus.before", before)?;
        Ok(GpuChange { gpu: GpuUuid(uuid.clone()), before, after: places("spec.change.gpus.after", after)? })
    };
    let gpus = gpus.iter().map(gpu).collect::<Result<_, _>>()?;
    Ok(Wish { id: ChangeId(id.clone()), permit: permit.transpose()?, gpus })
}
