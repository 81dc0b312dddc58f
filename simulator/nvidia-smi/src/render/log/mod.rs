//! `-q`: everything about each GPU, one reading a line, and `-x`, the same as
//! elements. Which readings there are, and their names, follow the driver.

mod bus;
mod errors;
pub(crate) mod identity;
pub(crate) mod neighbours;
mod power;
#[cfg(test)]
mod tests;
mod tree;
#[cfg(test)]
mod validity;
mod words;
mod work;

use crate::generation::{Driver, Form};
use crate::snapshot::{Gpu, System};

pub(crate) use tree::Section;
pub(crate) use words::uuid;

use tree::{NARROW, Node};

/// The column of values since the log became wide.
const WIDE: usize = 55;

/// The log, under a time such as `Thu Nov 21 07:12:15 2024`. No sections means
/// all of it.
pub(crate) fn log(time: &str, system: &System, gpus: &[Gpu], count: u32, sections: &[Section]) -> String {
    let driver = Driver::from_version(&system.driver);
    let column = column(driver);
    let mut text = heading(time, system);
    text.push_str(&format!("\n{:<column$}: {count}\n", "Attached GPUs"));
    for gpu in gpus {
        text.push_str(&format!("GPU {}\n", gpu.pci.id));
        text.push_str(&tree::text(&nodes(gpu, driver), sections, column));
        text.push('\n');
    }
    text
}

/// The log of units, of which there are none: no machine of today has any.
pub(crate) fn units(time: &str, system: &System) -> String {
    let column = column(Driver::from_version(&system.driver));
    let mut text = heading(time, system);
    for (key, value) in [("\nHIC Info", "N/A"), ("Attached Units", "0")] {
        let width = column + key.matches('\n').count();
        text.push_str(&format!("{key:<width$}: {value}\n"));
    }
    text + "\n"
}

/// The log of units as a document. No simulated machine has one.
pub(crate) fn document_of_units(time: &str, system: &System) -> String {
    let System { driver, nvml: _, cuda } = system;
    let cuda = cuda.as_deref().unwrap_or("Not Found");
    format!(
        "<?xml version=\"1.0\" ?>
<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_unit_v13.dtd\">
<nvidia_smi_log>
\t<timestamp>{time}</timestamp>
\t<driver_version>{driver}</driver_version>
\t<cuda_version>{cuda}</cuda_version>
\t<hic_info>
\t</hic_info>
\t<attached_units>0</attached_units>
</nvidia_smi_log>
"
    )
}

/// The column of the values at the left.
fn column(driver: Driver) -> usize {
    if driver.has(Form::WideLog) { WIDE } else { NARROW }
}

/// What stands above every log.
fn heading(time: &str, system: &System) -> String {
    let column = column(Driver::from_version(&system.driver));
    let mut text = "\n==============NVSMI LOG==============\n\n".to_owned();
    let System { driver: version, nvml: _, cuda } = system;
    let cuda = cuda.as_deref().unwrap_or("Not Found");
    for (key, value) in [("Timestamp", time), ("Driver Version", version), ("CUDA Version", cuda)] {
        text.push_str(&format!("{key:<column$}: {value}\n"));
    }
    text
}

/// The log as an XML document, which has its DTD in it or only names it.
pub(crate) fn document(time: &str, system: &System, gpus: &[Gpu], count: u32, with_dtd: bool) -> String {
    let driver = Driver::from_version(&system.driver);
    let System { driver: version, nvml: _, cuda } = system;
    let cuda = cuda.as_deref().unwrap_or("Not Found");
    let schema =
        if with_dtd { format!("[\n{}]", dtd(driver)) } else { format!("SYSTEM \"{}\"", schema(driver)) };
    let mut text = format!(
        "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log {schema}>\n<nvidia_smi_log>\n\t<timestamp>{time}</timestamp>\n\t<driver_version>{version}</driver_version>\n\t<cuda_version>{cuda}</cuda_version>\n\t<attached_gpus>{count}</attached_gpus>\n"
    );
    for gpu in gpus {
        let elements = tree::xml(&nodes(gpu, driver), 2);
        text.push_str(&format!("\t<gpu id=\"{}\">\n{elements}\t</gpu>\n\n", gpu.pci.id));
    }
    text.push_str("</nvidia_smi_log>\n");
    text
}

/// The DTD of the documents of a driver. It is the same text for all drivers, so
/// that every document is valid by it; the name is the driver's.
pub(crate) fn dtd(driver: Driver) -> String {
    format!("<!-- {} -->\n{}", schema(driver), include_str!("device.dtd"))
}

/// The name of the schema that documents of a driver say they follow.
fn schema(driver: Driver) -> &'static str {
    if driver.has(Form::R580) {
        "nvsmi_device_v13.dtd"
    } else if driver.has(Form::R530) {
        "nvsmi_device_v12.dtd"
    } else {
        "nvsmi_device_v11.dtd"
    }
}

fn nodes(gpu: &Gpu, driver: Driver) -> Vec<Node> {
    let mut nodes = identity::nodes(gpu, driver);
    nodes.push(bus::node(gpu, driver));
    nodes.extend(work::nodes(gpu, driver));
    nodes.extend(errors::nodes(gpu, driver));
    nodes.extend(power::nodes(gpu, driver));
    nodes.extend(neighbours::nodes(gpu, driver));
    nodes
}
