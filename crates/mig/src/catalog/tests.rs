use super::*;

/// A small table without fault: a GPU of two slices.
const TABLE: &str = r#"
architecture: ampere
models:
  - id: T2
    aliases: [Tiny]
    names: [NVIDIA T2]
    pci_device_ids: ["0x0001"]
    compute_capability: "8.0"
    total_memory_mib: 8192
    sm_count: 20
    grid: {compute_slices: 2, memory_units: 2}
    profiles:
      - name: 1g.4gb
        nvml_enum: 0
        profile_id: 14
        slice_count: 1
        max_instances: 2
        sm: 10
        memory_mib: 4000
        lgip_gib: 3.91
        engines: {copy: 1, decoder: 1, encoder: 0, jpeg: 0, ofa: 0}
        placements: {starts: [0, 1], size: 1}
      - name: 2g.8gb
        nvml_enum: 1
        profile_id: 0
        slice_count: 2
        max_instances: 1
        sm: 20
        memory_mib: 8000
        engines: {copy: 2, decoder: 2, encoder: 0, jpeg: 1, ofa: 1}
        placements: {starts: [0], size: 2}
    sources: {names: a, pci_device_ids: a, compute_capability: a, total_memory_mib: a, sm_count: a, grid: a,
      nvml_enum: a, profile_id: a, max_instances: a, sm: a, memory_mib: a, engines: a, placements: a}
"#;

fn broken(from: &str, to: &str) -> CatalogError {
    assert!(TABLE.contains(from), "{from}");
    match Catalog::parse(&[("tiny.yaml", &TABLE.replacen(from, to, 1))]) {
        Ok(_) => panic!("a table with `{to}` instead of `{from}` was taken"),
        Err(error) => error,
    }
}

#[track_caller]
fn check(from: &str, to: &str, expect: &str) {
    assert_eq!(broken(from, to).to_string(), expect);
}

/// For faults that the YAML reader finds, whose words are not ours.
#[track_caller]
fn check_says(from: &str, to: &str, parts: &[&str]) {
    let message = broken(from, to).to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` in: {message}");
    }
}

#[test]
fn a_table_without_fault_is_taken() {
    let catalog = Catalog::parse(&[("tiny.yaml", TABLE)]).unwrap();
    let [model] = catalog.models() else { panic!("one model") };
    assert_eq!(model.lattice().states().len(), 5);
    assert_eq!(model.source(Some(&model.profiles[0]), crate::Field::Sm), Some("a"));
}

#[test]
fn the_embedded_tables_are_without_fault() {
    if let Err(error) = Catalog::parse(FILES) {
        panic!("{error}");
    }
}

#[test]
fn a_start_off_the_grid() {
    check(
        "starts: [0, 1], size: 1",
        "starts: [0, 2], size: 1",
        "tiny.yaml: T2: 1g.4gb: placements.starts: profile 1g.4gb: start 2 is off the grid: \
         with size 1 on 2 units, starts are ascending and at most 1",
    );
}

#[test]
fn starts_out_of_order_or_none() {
    check_says("starts: [0, 1]", "starts: [1, 0]", &["T2: 1g.4gb: placements.starts:", "ascending"]);
    check_says("starts: [0, 1]", "starts: []", &["T2: 1g.4gb: placements.starts:", "name at least one"]);
}

#[test]
fn sizes_that_the_grid_does_not_have() {
    check_says("size: 2}", "size: 3}", &["T2: 2g.8gb: placements.size:", "size is 3; 1 to 2 are possible"]);
    check_says("size: 2}", "size: 0}", &["T2: 2g.8gb: placements.size:", "size is 0"]);
    check_says("slice_count: 2", "slice_count: 3", &["T2: 2g.8gb: slice_count:", "compute is 3"]);
    check_says("memory_units: 2", "memory_units: 0", &["T2: grid.memory_units:", "1 to 16 are"]);
}

#[test]
fn a_count_that_the_placements_do_not_give() {
    check(
        "max_instances: 2",
        "max_instances: 3",
        "tiny.yaml: T2: 1g.4gb: max_instances: 3 at once are not what the placements allow: 2 are",
    );
    // The slices overlap: the second start makes no room for a second slice.
    check(
        "placements: {starts: [0, 1], size: 1}",
        "placements: {starts: [0], size: 2}",
        "tiny.yaml: T2: 1g.4gb: max_instances: 2 at once are not what the placements allow: 1 are",
    );
}

#[test]
fn a_name_that_the_rounding_rule_contradicts() {
    check(
        "memory_mib: 8000",
        "memory_mib: 6000",
        "tiny.yaml: T2: 2g.8gb: memory_mib: 6000 MiB of 8192 MiB are called 6 GB by the rounding rule, \
         and the name says 8",
    );
    check_says(
        "name: 2g.8gb",
        "name: 2g.9gb",
        &["T2: 2g.9gb: memory_mib:", "called 8 GB", "the name says 9"],
    );
}

#[test]
fn a_name_that_the_slice_count_contradicts() {
    check(
        "slice_count: 1\n",
        "slice_count: 2\n",
        "tiny.yaml: T2: 1g.4gb: slice_count: 2 is not what the name says: 1",
    );
}

#[test]
fn memory_that_is_printed_otherwise() {
    check(
        "lgip_gib: 3.91",
        "lgip_gib: 4.00",
        "tiny.yaml: T2: 1g.4gb: lgip_gib: 4.00 GiB is not how 4000 MiB are printed",
    );
}

#[test]
fn a_slice_with_more_than_the_gpu() {
    check("sm: 20", "sm: 21", "tiny.yaml: T2: 2g.8gb: sm: 21 is more than the 20 of the whole GPU");
    check(
        "memory_mib: 8000",
        "memory_mib: 9000",
        "tiny.yaml: T2: 2g.8gb: memory_mib: 9000 is more than the 8192 of the whole GPU",
    );
}

#[test]
fn what_is_there_twice() {
    check(
        "profile_id: 0",
        "profile_id: 14",
        "tiny.yaml: T2: 2g.8gb: profile_id: 14 is there twice; the other is in profile 1g.4gb",
    );
    check(
        "nvml_enum: 1",
        "nvml_enum: 0",
        "tiny.yaml: T2: 2g.8gb: nvml_enum: 0 is there twice; the other is in profile 1g.4gb",
    );
    check_says("name: 2g.8gb", "name: 1g.4gb", &["T2: 1g.4gb: name:", "is there twice"]);
    check("[Tiny]", "[t-2]", "tiny.yaml: T2: aliases: t-2 is there twice; the other is in model T2");
    check(
        "[NVIDIA T2]",
        "[NVIDIA T2, T2]",
        "tiny.yaml: T2: names: T2 is there twice; the other is in model T2",
    );
    check(
        r#"["0x0001"]"#,
        r#"["0x0001", "0x0001"]"#,
        "tiny.yaml: T2: pci_device_ids: 0x0001 is there twice; the other is in model T2",
    );
}

#[test]
fn two_files_with_one_model() {
    let error = Catalog::parse(&[("a.yaml", TABLE), ("b.yaml", TABLE)]).unwrap_err();
    assert_eq!(error.to_string(), "b.yaml: T2: id: T2 is there twice; the other is in model T2");
}

#[test]
fn texts_that_are_no_ids() {
    check(
        r#""0x0001""#,
        r#""1""#,
        "tiny.yaml: T2: pci_device_ids: `1` is not a PCI device id such as \"0x20B2\"",
    );
    check(
        r#""8.0""#,
        r#""eight""#,
        "tiny.yaml: T2: compute_capability: `eight` is not a compute capability such as \"8.0\"",
    );
}

#[test]
fn a_value_without_source_and_a_source_without_value() {
    check("sm_count: a, ", "", "tiny.yaml: T2: sm_count: the value has no source; add one under `sources`");
    check(" sm: a,", "", "tiny.yaml: T2: 1g.4gb: sm: the value has no source; add one under `sources`");
    check(
        "    sm_count: 20\n",
        "    unverified: {sm_count: nobody looked}\n",
        "tiny.yaml: T2: sm_count: there is a source and no value",
    );
}

#[test]
fn a_gap_that_nobody_explains() {
    let expect = "the value is absent and `unverified` does not say why";
    check("        sm: 10\n", "", &format!("tiny.yaml: T2: 1g.4gb: sm: {expect}"));
    check("ofa: 0}", "}", &format!("tiny.yaml: T2: 1g.4gb: engines: {expect}"));
    check("    sm_count: 20\n", "", &format!("tiny.yaml: T2: sm_count: {expect}"));
}

#[test]
fn a_gap_with_a_reason_is_taken() {
    let table = TABLE.replacen("        sm: 10\n", "        unverified: {sm: no capture}\n", 1);
    let catalog = Catalog::parse(&[("tiny.yaml", &table)]).unwrap();
    let missing = catalog.models()[0].simulatable().unwrap_err();
    assert_eq!(
        missing.to_string(),
        "T2 cannot be simulated, because no source gives SMs of 1 of its 2 profiles; it can be planned for"
    );
}

#[test]
fn fields_that_do_not_exist_and_yaml_that_is_none() {
    check_says("max_instances: 2", "max_instance: 2", &["tiny.yaml:", "max_instance", "max_instances"]);
    check_says("size: 1}", "size: 1", &["tiny.yaml:", "line"]);
    check_says("name: 1g.4gb", "name: one", &["tiny.yaml:", "`one` is not a profile name"]);
    check_says("architecture: ampere", "architecture: volta", &["tiny.yaml:", "volta", "hopper"]);
}

#[track_caller]
fn check_label(label: &str, expect: Option<(&str, Option<&str>, bool, bool)>) {
    let found = Catalog::builtin().by_product_label(label);
    let found =
        found.map(|p| (p.model.id.as_str(), p.profile.map(|name| name.to_string()), p.invalid, p.shared));
    let expect =
        expect.map(|(id, profile, invalid, shared)| (id, profile.map(str::to_owned), invalid, shared));
    assert_eq!(found, expect, "{label}");
}

#[test]
fn product_labels_say_model_profile_and_sharing() {
    check_label("NVIDIA-A100-SXM4-80GB", Some(("A100-80GB", None, false, false)));
    check_label("A100-SXM4-40GB", Some(("A100-40GB", None, false, false)));
    check_label("NVIDIA-A100-80GB-PCIe-SHARED", Some(("A100-80GB", None, false, true)));
    check_label("NVIDIA-A30-MIG-1g.6gb", Some(("A30", Some("1g.6gb"), false, false)));
    check_label(
        "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me-SHARED",
        Some(("H100-80GB", Some("1g.10gb+me"), false, true)),
    );
    check_label("NVIDIA-A30-MIG-INVALID", Some(("A30", None, true, false)));
    check_label("NVIDIA-A30-MIG-huge", None);
    check_label("Tesla-V100-SXM2-32GB", None);
    check_label("", None);
}

#[test]
fn every_name_of_every_model_leads_back_to_it() {
    let catalog = Catalog::builtin();
    for model in catalog.models() {
        let same = |found: Option<&Model>| found.is_some_and(|found| std::ptr::eq(found, model));
        for text in std::iter::once(&model.id).chain(&model.aliases) {
            assert!(same(catalog.get(text)), "{text}");
            assert!(same(catalog.get(&text.to_lowercase().replace('-', " "))), "{text}");
            assert!(same(catalog.find(text).ok()), "{text}");
        }
        for name in &model.names {
            assert!(same(catalog.by_product_name(name)), "{name}");
            assert!(same(catalog.by_product_label(&product_label(name)).map(|p| p.model)), "{name}");
        }
        for id in &model.pci_device_ids {
            assert!(same(catalog.by_pci_device_id(*id)), "{id:x}");
        }
        for (index, profile) in model.profiles.iter().enumerate() {
            let index = Some(crate::ProfileIndex(u8::try_from(index).unwrap()));
            assert_eq!(model.geometry.profile_named(profile.name), index);
            assert_eq!(model.profile_with_enum(profile.nvml_enum), index);
            for text in
                [profile.name.to_string(), format!("MIG {}", profile.name), profile.name.resource_name()]
            {
                assert_eq!(model.resolve_profile(&text).ok(), index, "{text}");
            }
            if let Some(id) = profile.profile_id {
                assert_eq!(model.resolve_profile(&id.to_string()).ok(), index, "{id}");
            }
        }
    }
}

#[test]
fn a_model_that_is_not_there_gets_the_nearest() {
    let nearest = |text: &str| Catalog::builtin().find(text).unwrap_err().nearest;
    assert_eq!(nearest("A100"), ["A100-40GB", "A100-80GB"]);
    assert_eq!(nearest("H100-80BG"), ["H100-80GB"]);
    assert!(nearest("Voodoo 2").is_empty());
    assert!(nearest("").is_empty());
}

#[test]
fn a_profile_that_is_not_there_gets_the_nearest() {
    let model = Catalog::builtin().get("H100-94GB").unwrap();
    let nearest = |text: &str| model.resolve_profile(text).unwrap_err().nearest.map(|name| name.to_string());
    assert_eq!(nearest("1g.10gb").as_deref(), Some("1g.12gb"));
    assert_eq!(nearest("1g.10gb+me").as_deref(), Some("1g.12gb+me"));
    assert_eq!(nearest("2g.22gb").as_deref(), Some("2g.24gb"));
    assert_eq!(nearest("3g47gb").as_deref(), Some("3g.47gb"));
    assert_eq!(nearest("everything"), None);
}

#[test]
fn the_states_of_every_model_can_be_listed() {
    for model in Catalog::builtin().models() {
        let lattice = model.lattice();
        assert!(lattice.states().iter().all(|state| model.geometry.is_legal(*state)), "{}", model.id);
    }
}

#[test]
fn what_lgip_prints_is_the_memory_in_gib() {
    let a100 = Catalog::builtin().get("A100-40GB").unwrap();
    let printed: Vec<_> = a100.profiles.iter().filter_map(crate::Profile::lgip_gib).collect();
    assert_eq!(printed, ["4.75", "4.75", "9.62", "9.62", "19.50", "19.50", "39.25"]);
}
