//! Layouts as tests write them.

use slicewright_rollout::{GpuLayout, NodeLayout};

/// `0:1g.10gb*7 1:off` as it is printed.
#[track_caller]
pub fn layout(text: &str) -> NodeLayout {
    NodeLayout::new(text.split_whitespace().map(|gpu| {
        let (index, what) = gpu.split_once(':').unwrap();
        let what = match what {
            "off" => GpuLayout::Off,
            slices => GpuLayout::Mig(
                slices
                    .split(',')
                    .map(|part| {
                        let (profile, n) = part.split_once('*').unwrap();
                        (profile.parse().unwrap(), n.parse().unwrap())
                    })
                    .collect(),
            ),
        };
        (index.parse().unwrap(), what)
    }))
}
