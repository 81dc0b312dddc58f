//! `slicewright layouts` and `slicewright fit`, as users and programs see them.

use cli::exit::Status;
use serde_json::{Value, json};

struct Ran {
    status: Status,
    out: String,
    err: String,
}

fn run(line: &str) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = line.split_whitespace().map(Into::into);
    let status = cli::run(args, &mut out, &mut err);
    Ran { status, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

#[track_caller]
fn json_of(line: &str, status: Status) -> Value {
    let ran = run(line);
    assert_eq!(ran.status, status, "{}", ran.err);
    assert_eq!(ran.err, "");
    serde_json::from_str(&ran.out).unwrap()
}

#[track_caller]
fn refuses(line: &str, says: &str) {
    let ran = run(line);
    assert_eq!(ran.status, Status::Usage, "{}", ran.out);
    assert_eq!(ran.out, "");
    assert!(ran.err.contains(says), "{}", ran.err);
}

#[test]
fn slices_that_fit_come_with_places_and_an_order() {
    let answer = json_of("slicewright fit A100-40GB 9:1 14 1g.5gb:2 -o json", Status::Success);
    let expect = json!({
        "fits": true,
        "placements": [["2g.10gb", 0], ["1g.5gb", 2], ["1g.5gb", 3], ["3g.20gb", 4]],
        "creation_order": ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"],
        "why": null,
    });
    assert_eq!(answer, expect);
}

#[test]
fn slices_that_do_not_fit_come_with_the_reason() {
    let answer = json_of("slicewright fit A100-80GB 1g.10gb:8 -o json", Status::Negative);
    let why = "they need 8 compute slices, and the GPU has 7";
    assert_eq!(answer, json!({"fits": false, "placements": [], "creation_order": null, "why": why}));
}

#[test]
fn the_driver_gets_stuck_in_one_order_and_not_in_another() {
    let ran = run("slicewright fit A100-40GB 19,19,14,9 --in-order");
    assert_eq!(ran.status, Status::Negative);
    assert_eq!(
        ran.out,
        "2 x 1g.5gb, 1 x 2g.10gb, 1 x 3g.20gb do not fit one A100-40GB: the driver has no room for 3g.20gb \
         beside 1g.5gb@6, 1g.5gb@4, 2g.10gb@0; in the order 3g.20gb, 2g.10gb, 1g.5gb, 1g.5gb they fit.\n"
    );
    assert_eq!(run("slicewright fit A100-40GB 9,14,19,19 --in-order").status, Status::Success);
    assert_eq!(run("slicewright fit A100-40GB 19,19,14,9").status, Status::Success);
}

#[test]
fn an_answer_for_people_has_a_picture() {
    let expect = "\
1 x 1g.6gb, 1 x 1g.6gb+me, 1 x 2g.12gb fit one A30:
   0                 1                 2                 3
  │2g.12gb                            │1g.6gb           │1g.6gb+me        │
If they are created in this order, the driver chooses these placements:
  nvidia-smi mig -cgi 2g.12gb,1g.6gb,1g.6gb+me -C
";
    let ran = run("slicewright fit a30 nvidia.com/mig-1g.6gb.me 1g.6gb 2g.12gbx1");
    assert_eq!(ran.out, expect);
    assert!(run("slicewright --color always fit a30 1g.6gb").out.contains("\x1b["));
}

#[test]
fn counts_of_any_size_get_an_answer() {
    for count in ["0", "1", "7"] {
        assert_eq!(run(&format!("slicewright fit A100-80GB 1g.10gb:{count}")).status, Status::Success);
    }
    for count in ["8", "64", "65", "255", "256", "4294967295"] {
        let ran = run(&format!("slicewright fit A100-80GB 1g.10gb:{count}"));
        assert_eq!(ran.status, Status::Negative, "{count}");
        assert!(ran.out.starts_with(&format!("{count} x 1g.10gb do not fit")), "{}", ran.out);
    }
}

#[test]
fn questions_without_sense_are_refused() {
    refuses(
        "slicewright fit A100-80G 1g.10gb",
        "no GPU model with MIG is called `A100-80G`; did you mean A100-80GB?",
    );
    refuses("slicewright fit A100 1g.10gb", "called `A100`; did you mean A100-40GB or A100-80GB?");
    refuses("slicewright fit A30 1g.5gb", "A30 has no profile `1g.5gb`; did you mean 1g.6gb?");
    refuses("slicewright fit A30 1c.2g.12gb", "A30 has no profile `1c.2g.12gb`; did you mean 2g.12gb?");
    refuses("slicewright fit A30 99", "A30 has no profile `99`. It has 1g.6gb,");
    refuses("slicewright fit A30 1g.6gb:-1", "`-1` is not a count");
    refuses("slicewright fit A30 1g.6gb:many", "`many` is not a count");
    refuses("slicewright fit A30 1g.6gb:", "`` is not a count");
    refuses("slicewright fit A30 ,", "no slice is requested");
    refuses("slicewright fit A30", "required");
    refuses("slicewright fit A30 1g.6gb -o yaml", "invalid value 'yaml'");
    refuses("slicewright layouts voodoo2", "no GPU model with MIG is called `voodoo2`. Known are A100-40GB");
    refuses(
        "slicewright layouts T4",
        "T4 has no MIG, so it cannot be cut into slices; docs/guides/sharing.md",
    );
    refuses("slicewright fit l40s 1g.10gb", "L40S has no MIG, so it cannot be cut into slices");
    refuses("slicewright layouts --all-profiles", "required");
}

#[track_caller]
fn figures(model: &str, expect: [u64; 4]) {
    let value = json_of(&format!("slicewright layouts {model} -o json"), Status::Success);
    let figures = &value["figures"];
    let found = ["placements", "states", "multisets", "maximal"].map(|key| figures[key].as_u64().unwrap());
    assert_eq!(found, expect, "{model}");
    let maximal = value["maximal"].as_array().unwrap();
    assert_eq!(maximal.len() as u64, expect[3]);
    assert!(maximal.iter().all(|layout| layout["creation_order"].is_array()), "{model}");
}

#[test]
fn the_figures_of_a_model() {
    for model in ["A100-40GB", "A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB", "GB300"] {
        figures(model, [18, 723, 78, 78]);
    }
    figures("A30", [7, 26, 10, 5]);
    figures("RTX-PRO-6000-96GB", [7, 26, 10, 5]);
}

#[test]
fn a_model_is_found_by_what_machines_call_it() {
    for name in
        ["A100-80GB", "a100_80gb", "A800-80GB", "NVIDIA-A100-SXM4-80GB", "A100-SXM4-80GB-MIG-1g.10gb-SHARED"]
    {
        let value = json_of(&format!("slicewright layouts {name} -o json"), Status::Success);
        assert_eq!(value["model"], "A100-80GB", "{name}");
    }
}

#[test]
fn a_model_is_drawn_with_all_its_full_layouts() {
    let ran = run("slicewright layouts A30");
    assert_eq!(ran.status, Status::Success);
    let pictures: Vec<&str> = ran.out.lines().filter(|line| line.contains('│')).collect();
    let expect = [
        "  │4g.24gb                                                                │",
        "  │2g.12gb                            │2g.12gb                            │",
        "  │1g.6gb           │1g.6gb           │2g.12gb                            │",
        "  │2g.12gb                            │1g.6gb           │1g.6gb           │",
        "  │1g.6gb           │1g.6gb           │1g.6gb           │1g.6gb           │",
    ];
    assert_eq!(pictures, expect);
    let all = run("slicewright layouts A30 --all-profiles");
    assert_eq!(all.out.lines().filter(|line| line.contains('│')).count(), 17);
}

#[test]
fn what_is_not_known_is_said() {
    let ran = run("slicewright layouts GB300");
    assert!(
        ran.out
            .contains("GB300 cannot be simulated, because no source gives the name that NVML reports, nor"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("names: no capture of the name that NVML reports was found"), "{}", ran.out);
    assert!(run("slicewright layouts").out.contains("GB300"));
}

#[test]
fn the_list_of_models_is_there_for_programs() {
    let value = json_of("slicewright layouts -o json", Status::Success);
    let models = value.as_array().unwrap();
    assert_eq!(models.len(), 13);
    let simulated = models.iter().filter(|model| model["simulatable"] == true).map(|model| &model["model"]);
    let expect = [
        "A100-40GB",
        "A100-80GB",
        "A30",
        "H100-80GB",
        "H100-94GB",
        "GH200-96GB",
        "H200-141GB",
        "RTX-PRO-6000-96GB",
    ];
    assert_eq!(simulated.collect::<Vec<_>>(), expect);
}
