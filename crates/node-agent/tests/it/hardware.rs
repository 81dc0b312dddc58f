//! Real hardware, if the machine has some: the agent reports it, over a kubelet that stands in, and lets go of the
//! driver after each look. Nothing of the hardware is changed.

use std::path::PathBuf;

use nvml::port::{Found, Gpus as _};

use crate::scene::Scene;

/// The library of this machine's driver, and what it says.
fn driver() -> Result<(PathBuf, Found), String> {
    let read = nvml::open(None, |gpus| (loaded(), gpus.enumerate()));
    let (library, found) = read.map_err(|error| error.to_string())?;
    Ok((library.ok_or("no file of it is mapped")?, found.map_err(|error| error.to_string())?))
}

/// The file that this process has loaded as NVIDIA's library.
fn loaded() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines()
        .find_map(|line| line.find('/').map(|at| &line[at..]).filter(|path| path.contains("libnvidia-ml.so")))
        .map(PathBuf::from)
}

/// `--nocapture` shows what the agent costs.
#[tokio::test]
async fn real_gpus_are_reported_and_let_go_after_each_look() {
    let (library, found) = match driver() {
        Ok(driver) => driver,
        Err(why) => return println!("left out: there is no GPU to be read here ({why})"),
    };
    let mut scene = Scene::over_hardware(&library).await;
    let all: Vec<_> = found.gpus.iter().map(|gpu| gpu.uuid.0.clone()).collect();
    let offered = |books: &mut sim_kubelet::Books| {
        books.healthy = [("nvidia.com/gpu".to_owned(), all.iter().cloned().collect())].into();
    };
    scene.kubelet.update(offered).unwrap();
    scene.agent();
    let status = scene.until("all GPUs are reported", |status| status.observed.is_some()).await;
    let (agent, observed) = (status.agent.unwrap(), status.observed.unwrap());
    assert_eq!(agent.driver.as_deref(), Some(found.driver.as_str()));
    let told: Vec<_> =
        observed.gpus.iter().map(|gpu| (gpu.index, gpu.uuid.clone(), gpu.mig_enabled)).collect();
    println!("{}: {:?}", found.driver, observed.gpus.iter().map(|gpu| &gpu.model).collect::<Vec<_>>());
    assert_eq!(told.len(), found.gpus.len(), "{observed:#?}");
    for gpu in &found.gpus {
        let cut = gpu.mode.is_some_and(|mode| mode.current == nvml::port::Mode::Enabled);
        let this = (i32::try_from(gpu.index).unwrap(), Some(gpu.uuid.0.clone()), cut);
        assert!(told.contains(&this), "{this:?} is not in {told:?}");
    }
    let at_rest =
        |scene: &Scene| assert_eq!(scene.open_devices(), Vec::<PathBuf>::new(), "\n{}", scene.log());
    at_rest(&scene);
    println!("after the first look: {}", scene.cost());
    // Kubelet's checkpoint is written again and again, and each time the agent looks.
    for _ in 0..50 {
        let asked = scene.kubelet.calls().list;
        scene.kubelet.update(offered).unwrap();
        scene.until_listed(asked + 1).await;
    }
    let pod = sim_kubelet::Pod::new("research", "train", "nvidia.com/gpu", &[&all[0]]);
    scene.kubelet.update(|books| books.pods.push(pod)).unwrap();
    let held = |status: &api::gpu_node::GpuNodeStatus| {
        let gpus = status.observed.iter().flat_map(|observed| &observed.gpus);
        gpus.filter(|gpu| !gpu.holders.is_empty()).count() == 1
    };
    scene.until("the pod holds its GPU", held).await;
    at_rest(&scene);
    println!("after {} looks: {}", scene.kubelet.calls().list, scene.cost());
}
