//! Faults that can be injected into a node, as data.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::operand::Operand;

/// Something that goes wrong, from its moment until it is cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFault {
    /// Pods of this operand do not stop when they are deleted.
    DoesNotStop(Operand),
    /// This operand's pods are not created: no image, no quota.
    DoesNotStart(Operand),
    /// MIG manager cannot delete the validator's pod.
    ValidatorDeleteFails,
    /// The validator never says that the toolkit is ready.
    ValidatorNeverReady,
    /// Writing the CDI specification fails.
    CdiFails,
    /// The device plugin runs and does not register.
    PluginNeverRegisters,
    /// The device plugin counts so many more (or less) of a resource.
    PluginCounts {
        /// The resource.
        resource: String,
        /// How many more; negative for less.
        by: i64,
    },
    /// DCGM and its exporter keep every slice open that is there when they start, and those that are there now. NVML lists
    /// no process for it, and to destroy such a slice answers `InUse` until their pods are gone.
    DcgmHoldsSlices,
    /// Asked for its `List` while a device is chosen and not entered yet, and after another pod has ended, the kubelet
    /// forgets the choice, and may give the device to a later pod as well (kubernetes#137534).
    ListForgets,
    /// The kubelet takes so much longer to enter into its books what it gave to a pod: meanwhile no reader of them knows.
    BooksLag(SignedDuration),
    /// The kubelet's process starts anew. Once.
    KubeletRestarts,
    /// GFD's labels take so much longer.
    GfdLags(SignedDuration),
    /// A fault of the hardware or the driver. Begins; [`gpu::Fault::Clear`] ends it.
    Hardware(gpu::Fault),
    /// This operand's container exits again and again.
    Crashes(Operand),
    /// GFD's labels vanish, and come back with its next round. Once.
    LabelsVanish,
    /// The Operator upgrades the driver: cordons, parks the operands with a
    /// value of its own, reloads the driver, and takes all of that back. With
    /// pods that hold devices it gives up, since nobody drains for it. Once.
    DriverUpgrade,
    /// The same, by an Operator that is told to delete the pods that hold
    /// devices ([`crate::Node::pods_to_delete`]), and waits five minutes for
    /// them. Once.
    DriverUpgradeDrains,
    /// The next changes of a ConfigMap take so long to arrive in a pod.
    MapMountsAfter(SignedDuration),
    /// Somebody (the Operator after a driver upgrade) uncordons the node. Once.
    Uncordon,
    /// Everything above stops going wrong, from now on.
    Clear,
}

/// A fault and the moment at which it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledFault {
    /// When.
    pub at: Timestamp,
    /// What.
    pub fault: NodeFault,
}
