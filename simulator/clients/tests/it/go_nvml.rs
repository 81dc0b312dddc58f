//! go-nvml, the binding that NVIDIA's own programs use: enumeration, and all
//! of MIG.

use std::time::Duration;

use clients::{Node, find, json_lines};
use gpu::{DriverBranch, Fault, Machine, Model, Scheduled, Topology};
use serde_json::{Value, json};

/// NVML's numbers.
const SUCCESS: u64 = 0;
const INVALID_ARGUMENT: u64 = 2;
const NOT_SUPPORTED: u64 = 3;
const NOT_FOUND: u64 = 6;
const TIMEOUT: u64 = 10;
const IN_USE: u64 = 19;
const INSUFFICIENT_RESOURCES: u64 = 23;

/// NVML's names of the profiles, as far as they are used here.
const ONE_SLICE: u32 = 0;
const TWO_SLICES: u32 = 1;
const THREE_SLICES: u32 = 2;
const FOUR_SLICES: u32 = 3;
const SEVEN_SLICES: u32 = 4;

struct Bench {
    node: Node,
    program: String,
}

impl Bench {
    fn for_model(model: &str) -> Option<Self> {
        Self::with_driver(model, DriverBranch(580))
    }

    fn with_driver(model: &str, driver: DriverBranch) -> Option<Self> {
        let found = find(&["go-nvml-session"])?;
        let machine = Machine::new("n1", driver, store::now()).with_gpu(&Model::find(model).unwrap());
        let program = found.programs[0].to_str().unwrap().to_owned();
        Some(Self { node: Node::new(machine, found.library).unwrap(), program })
    }

    /// Runs one session.
    #[track_caller]
    fn session(&self, commands: &[String]) -> Vec<Value> {
        let input = commands.iter().map(|command| format!("{command}\n")).collect::<String>();
        json_lines(&self.node.run(&self.program, &[], &input).unwrap()).unwrap()
    }

    /// The answer to one command, in a session of its own.
    #[track_caller]
    fn ask(&self, command: &str) -> Value {
        self.session(&[command.to_owned()]).remove(0)
    }

    #[track_caller]
    fn gives(&self, command: &str, code: u64) {
        let answer = self.ask(command);
        assert_eq!(answer["code"], code, "{command}: {answer}");
    }

    fn gpu(&self) -> Value {
        self.ask("walk")["devices"][0].clone()
    }
}

#[test]
fn the_profiles_of_an_a100_40gb_are_those_of_nvidias_own_table() {
    // The table is of a driver before 580, which gives larger memories to the same slices.
    let Some(bench) = Bench::with_driver("A100-40GB", DriverBranch(550)) else { return };
    let answer = bench.ask("table 0");
    assert_eq!(answer["differences"], json!([]));
    assert_eq!(answer["compared"], 7);
}

#[test]
fn the_profiles_of_an_h100_are_those_that_nvidia_smi_lists() {
    let Some(bench) = Bench::for_model("H100-80GB") else { return };
    bench.gives("mode 0 1", SUCCESS);
    // `mig -lgip` and `-lgipp`: name, id, free/total, GiB, SM, DEC, ENC, CE, JPEG, OFA, starts, size.
    let listed = [
        "1g.10gb 19 7/7 9.75 16 1 0 1 1 0 [0,1,2,3,4,5,6]:1",
        "1g.10gb+me 20 1/1 9.75 16 1 0 1 1 1 [0,1,2,3,4,5,6]:1",
        "1g.20gb 15 4/4 19.62 26 1 0 1 1 0 [0,2,4,6]:2",
        "2g.20gb 14 3/3 19.62 32 2 0 2 2 0 [0,2,4]:2",
        "3g.40gb 9 2/2 39.50 60 3 0 3 3 0 [0,4]:4",
        "4g.40gb 5 1/1 39.50 64 4 0 4 4 0 [0]:4",
        "7g.80gb 0 1/1 79.25 132 7 0 8 7 1 [0]:8",
    ];
    let gpu = bench.gpu();
    let mut found: Vec<String> = gpu["profiles"].as_array().unwrap().iter().map(row).collect();
    found.sort();
    let mut listed = listed.map(str::to_owned).to_vec();
    listed.sort();
    assert_eq!(found, listed);
    for profile in gpu["profiles"].as_array().unwrap() {
        assert_eq!(profile["name"], profile["nameV3"]);
    }
}

/// A profile as `nvidia-smi` would list it. Two decimals are cut, not rounded: 20096 MiB are 19.62 GiB.
fn row(profile: &Value) -> String {
    let info = &profile["info"];
    let memory = info["MemorySizeMB"].as_u64().unwrap() * 100 / 1024;
    let placements = profile["placements"].as_array().unwrap();
    let starts: Vec<_> = placements.iter().map(|at| at["Start"].as_u64().unwrap()).collect();
    format!(
        "{} {} {}/{} {}.{:02} {} {} {} {} {} {} {}:{}",
        profile["name"].as_str().unwrap().trim_start_matches("MIG "),
        info["Id"],
        profile["free"],
        info["InstanceCount"],
        memory / 100,
        memory % 100,
        info["MultiprocessorCount"],
        info["DecoderCount"],
        info["EncoderCount"],
        info["CopyEngineCount"],
        info["JpegCount"],
        info["OfaCount"],
        json!(starts),
        placements[0]["Size"],
    )
}

#[test]
fn without_mig_there_is_a_gpu_and_nothing_on_it() {
    let Some(bench) = Bench::for_model("A100-80GB") else { return };
    let gpu = bench.gpu();
    assert_eq!(gpu["name"], "NVIDIA A100-SXM4-80GB");
    assert_eq!((&gpu["index"], &gpu["minor"], &gpu["isMig"]), (&json!(0), &json!(0), &json!(false)));
    assert_eq!((&gpu["migMode"], &gpu["maxMigDevices"]), (&json!([0, 0]), &json!(0)));
    assert_eq!((&gpu["instances"], &gpu["migDevices"]), (&json!([]), &json!([])));
    assert_eq!(gpu["byBusId"], gpu["uuid"]);
    assert_eq!(gpu["pciDeviceId"], 0x20B2_10DE);
    assert_eq!(gpu["computeCapability"], json!([8, 0]));
    assert_ne!(gpu["attributes"]["code"], SUCCESS, "they are those of MIG devices");
    bench.gives(&format!("gi 0 {ONE_SLICE}"), NOT_SUPPORTED);
    bench.gives("mode 1 1", INVALID_ARGUMENT);
    bench.gives("find GPU-of-nobody", NOT_FOUND);
}

#[test]
fn seven_slices_come_in_the_order_of_the_capture_and_other_processes_see_them() {
    let Some(bench) = Bench::for_model("H100-80GB") else { return };
    bench.gives("mode 0 1", SUCCESS);
    let commands: Vec<_> = (0..8).map(|_| format!("gi 0 {ONE_SLICE}")).collect();
    let answers = bench.session(&commands);
    let ids: Vec<_> = answers.iter().take(7).map(|made| made["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [13, 11, 12, 7, 8, 9, 10]);
    assert_eq!(answers[7]["code"], INSUFFICIENT_RESOURCES);
    assert_eq!(answers[7]["text"], "Insufficient Resources");
    // Without a compute instance nobody can use them, and there is no device.
    let gpu = bench.gpu();
    assert_eq!(gpu["instances"].as_array().unwrap().len(), 7);
    assert_eq!(gpu["migDevices"], json!([]));

    let commands: Vec<_> = [9, 7, 13].iter().map(|id| format!("ci 0 {id} {ONE_SLICE}")).collect();
    assert!(bench.session(&commands).iter().all(|made| made["code"] == SUCCESS));
    let before = bench.gpu();
    let migs = before["migDevices"].as_array().unwrap();
    let seen: Vec<_> = migs.iter().map(|mig| (mig["index"].clone(), mig["gi"].clone())).collect();
    assert_eq!(seen, [(json!(0), json!(7)), (json!(1), json!(9)), (json!(2), json!(13))]);
    for mig in migs {
        assert_eq!(mig["name"], "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
        assert_eq!((&mig["memoryMiB"], &mig["parent"]), (&json!(9984), &before["uuid"]));
        let found = bench.ask(&format!("find {}", mig["uuid"].as_str().unwrap()));
        assert_eq!((&found["isMig"], &found["name"]), (&json!(true), &mig["name"]));
    }

    bench.gives("rm-gi 0 9", IN_USE);
    bench.gives("rm-ci 0 9 0", SUCCESS);
    bench.gives("rm-gi 0 9", SUCCESS);
    bench.gives("rm-gi 0 9", NOT_FOUND);
    // The same place has the same UUID again.
    assert_eq!(bench.ask(&format!("gi 0 {ONE_SLICE}"))["id"], 9);
    bench.gives(&format!("ci 0 9 {ONE_SLICE}"), SUCCESS);
    assert_eq!(bench.gpu()["migDevices"], before["migDevices"]);
}

#[test]
fn the_guides_examples_come_out_as_printed() {
    // Creations in order, with the id and the placement that the guide prints.
    let one = (ONE_SLICE, TWO_SLICES, THREE_SLICES);
    let cases: [&[(u32, Result<&str, u64>)]; 4] = [
        &[
            (one.0, Ok("13@6:1")),
            (one.0, Ok("11@4:1")),
            (one.1, Ok("3@0:2")),
            (one.2, Err(INSUFFICIENT_RESOURCES)),
        ],
        &[(one.2, Ok("2@4:4")), (one.0, Ok("7@0:1")), (one.1, Ok("4@2:2")), (one.0, Ok("8@1:1"))],
        &[(one.0, Ok("13@6:1")), (one.1, Ok("5@4:2")), (FOUR_SLICES, Ok("1@0:4"))],
        &[(SEVEN_SLICES, Ok("0@0:8")), (one.0, Err(INSUFFICIENT_RESOURCES))],
    ];
    for case in cases {
        let Some(bench) = Bench::for_model("A100-80GB") else { return };
        bench.gives("mode 0 1", SUCCESS);
        let commands: Vec<_> = case.iter().map(|(profile, _)| format!("gi 0 {profile}")).collect();
        for (made, (_, expected)) in bench.session(&commands).iter().zip(case) {
            let got = match made["code"].as_u64().unwrap() {
                SUCCESS => Ok(format!("{}@{}:{}", made["id"], made["start"], made["size"])),
                code => Err(code),
            };
            assert_eq!(got.as_ref().map(String::as_str).map_err(|code| *code), *expected);
        }
    }
}

#[test]
fn a_placement_is_taken_at_its_word_or_refused() {
    let Some(bench) = Bench::for_model("A100-80GB") else { return };
    bench.gives("mode 0 1", SUCCESS);
    let made = bench.ask(&format!("gi 0 {TWO_SLICES} 2"));
    assert_eq!((&made["id"], &made["start"], &made["profileId"]), (&json!(4), &json!(2), &json!(14)));
    bench.gives(&format!("gi 0 {TWO_SLICES} 2"), INSUFFICIENT_RESOURCES);
    bench.gives(&format!("gi 0 {TWO_SLICES} 3"), INVALID_ARGUMENT);
    bench.gives(&format!("gi 0 {THREE_SLICES} 0"), INSUFFICIENT_RESOURCES);
}

#[test]
fn a_2g_of_an_h100_has_two_compute_profiles_of_one_slice() {
    // NVIDIA/go-nvml issue 146: 16 SMs for profile 0, 26 for profile 7, of which there is one.
    let Some(bench) = Bench::for_model("H100-80GB") else { return };
    bench.gives("mode 0 1", SUCCESS);
    bench.gives(&format!("gi 0 {TWO_SLICES}"), SUCCESS);
    let gpu = bench.gpu();
    let profiles = gpu["instances"][0]["computeProfiles"].as_array().unwrap();
    let ones: Vec<_> = profiles
        .iter()
        .filter(|profile| profile["info"]["SliceCount"] == 1)
        .map(|profile| {
            (&profile["number"], &profile["info"]["MultiprocessorCount"], &profile["info"]["InstanceCount"])
        })
        .collect();
    assert_eq!(ones, [(&json!(0), &json!(16), &json!(2)), (&json!(7), &json!(26), &json!(1))]);
}

#[test]
fn partial_compute_instances_share_the_memory_of_their_slice() {
    let Some(bench) = Bench::for_model("A100-80GB") else { return };
    bench.gives("mode 0 1", SUCCESS);
    bench.gives(&format!("gi 0 {THREE_SLICES}"), SUCCESS);
    let commands: Vec<_> = (0..4).map(|_| format!("ci 0 2 {ONE_SLICE}")).collect();
    let made = bench.session(&commands);
    let placed: Vec<_> = made.iter().take(3).map(|ci| (&ci["id"], &ci["start"], &ci["size"])).collect();
    assert_eq!(placed.len(), 3);
    assert_eq!(made[3]["code"], INSUFFICIENT_RESOURCES);
    let gpu = bench.gpu();
    let migs = gpu["migDevices"].as_array().unwrap();
    assert_eq!(migs.len(), 3);
    for mig in migs {
        assert_eq!(mig["name"], "NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb");
        assert_eq!(mig["attributes"]["GpuInstanceSliceCount"], 3);
        assert_eq!(mig["attributes"]["ComputeInstanceSliceCount"], 1);
        assert_eq!(mig["attributes"]["MemorySizeMB"], mig["memoryMiB"]);
    }
}

#[test]
fn an_xid_error_is_an_event_of_the_gpu_and_a_quiet_one_times_out() {
    let Some(bench) = Bench::for_model("H100-80GB") else { return };
    let after = |milliseconds| {
        bench.node.change(|machine| {
            let at = machine.now() + Duration::from_millis(milliseconds);
            machine.schedule(Scheduled { at, fault: Fault::Xid { gpu: 0, code: 63 } });
        })
    };
    after(300).unwrap();
    let answers = bench.session(&["watch 0", "next 5000", "next 0"].map(str::to_owned));
    assert_eq!(answers[0]["code"], SUCCESS);
    let event = &answers[1];
    assert_eq!(
        (&event["gpu"], &event["type"], &event["data"]),
        (&json!(0), &json!(8), &json!(63)),
        "{event}"
    );
    // The header: no instance, if it is of none.
    assert_eq!(event["instances"], json!([u32::MAX, u32::MAX]));
    assert_eq!(answers[2]["code"], TIMEOUT);
}

/// Which GPUs of a host with eight go-gpuallocator chooses, as the device plugin does when the kubelet asks which it
/// prefers for a pod: so many, of those that are not taken.
fn preferred(host: &str, many: usize, taken: &[u16]) -> Option<Vec<u64>> {
    let found = find(&["go-nvml-session"])?;
    let machine = Machine::new("n1", DriverBranch(580), store::now()).built_as(Topology::find(host).unwrap());
    let model = Model::find("A100-80GB").unwrap();
    let machine = (0..8).fold(machine, |machine, _| machine.with_gpu(&model));
    let program = found.programs[0].to_str().unwrap().to_owned();
    let bench = Bench { node: Node::new(machine, found.library).unwrap(), program };
    let taken: String = taken.iter().map(|gpu| format!(" {gpu}")).collect();
    let answer = bench.ask(&format!("near {many}{taken}"));
    let gpus = answer["gpus"].as_array().unwrap_or_else(|| panic!("{answer}"));
    Some(gpus.iter().map(|gpu| gpu.as_u64().unwrap()).collect())
}

#[test]
fn a_pod_of_several_gpus_gets_those_that_are_near_each_other() {
    // Pairs that are bridged stay pairs.
    let Some(pair) = preferred("nvlink-bridges", 2, &[]) else { return };
    assert_eq!(pair, [0, 1]);
    assert_eq!(preferred("nvlink-bridges", 2, &[0]).unwrap(), [2, 3]);
    assert_eq!(preferred("nvlink-bridges", 3, &[0, 2]).unwrap(), [1, 4, 5]);
    // One socket rather than two, one switch rather than two.
    assert_eq!(preferred("two-sockets", 4, &[0]).unwrap(), [4, 5, 6, 7]);
    assert_eq!(preferred("pcie-switches", 2, &[0]).unwrap(), [2, 3]);
    // More than there are are none.
    assert_eq!(preferred("dgx-a100", 8, &[]).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(preferred("dgx-a100", 9, &[]).unwrap(), [0u64; 0]);
}
