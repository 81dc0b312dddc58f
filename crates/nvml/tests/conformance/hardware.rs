//! Real hardware, if the machine has some: it is read, and never changed. The driver's answers are compared
//! with our tables, value by value, and printed.

use mig::Catalog;
use nvml::compare;
use nvml::conformance::reading;
use nvml::port::Gpus;

/// `--nocapture` shows what was found.
#[test]
fn what_hardware_tells_hangs_together_and_is_compared_with_our_tables() {
    let read = nvml::open(None, |gpus| {
        for line in reading(gpus) {
            println!("{line}");
        }
        let found = gpus.enumerate().unwrap();
        for gpu in found.gpus {
            let profiles = gpus.profiles(&gpu.uuid).unwrap();
            let Some(model) = Catalog::builtin().by_product_name(&gpu.name) else {
                println!("GPU {}: the catalogue does not have {}", gpu.index, gpu.name);
                continue;
            };
            if profiles.is_empty() {
                println!(
                    "GPU {}: the driver names no profiles (while MIG is off, old ones do not)",
                    gpu.index
                );
                continue;
            }
            let differences = compare::with_model(model, &gpu, &profiles, &found.driver);
            println!("GPU {}: {} values differ from those of {}", gpu.index, differences.len(), model.id);
            for difference in differences {
                println!("  {difference}");
            }
        }
    });
    if let Err(error) = read {
        println!("left out: there is no GPU to be read here ({error})");
    }
}
