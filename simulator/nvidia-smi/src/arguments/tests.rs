use super::*;

#[track_caller]
fn parsed(line: &str) -> Result<Command, Refused> {
    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    parse(&words)
}

fn targets(items: &[&str]) -> Targets {
    Targets(Some(items.iter().map(|item| (*item).to_owned()).collect()))
}

fn mig(targets: Targets, action: MigAction) -> Command {
    Command::Mig(MigCommand { targets, gpu_instances: None, compute_instances: None, action })
}

#[test]
fn every_spelling_of_a_value_is_the_same() {
    for line in ["-i 0 -mig 1", "-i=0 -mig=1", "--id=0 --multi-instance-gpu=1", "-mig ENABLED --id 0"] {
        assert_eq!(parsed(line), Ok(Command::SetMig { targets: targets(&["0"]), on: true }), "{line}");
    }
    assert_eq!(parsed("-pm 0"), Ok(Command::SetPersistence { targets: Targets::default(), on: false }));
    assert_eq!(parsed("-r -i 0,1"), Ok(Command::Reset(targets(&["0", "1"]))));
    assert_eq!(parsed("--gpu-reset"), Ok(Command::Reset(Targets::default())));
}

#[test]
fn nothing_is_the_summary_and_i_narrows_it() {
    assert_eq!(parsed(""), Ok(Command::Summary(Targets::default())));
    assert_eq!(parsed("-i 1"), Ok(Command::Summary(targets(&["1"]))));
    assert_eq!(parsed("-L"), Ok(Command::List(Targets::default())));
}

#[test]
fn queries_have_fields_and_a_format() {
    let fields = "pci.bus_id,mig.mode.current".to_owned();
    let asked = |format| Ok(Command::QueryGpu { targets: targets(&["0"]), fields: fields.clone(), format });
    let line = "-i 0 --query-gpu=pci.bus_id,mig.mode.current --format=csv";
    assert_eq!(parsed(line), asked(Format { header: true, units: true }));
    assert_eq!(parsed(&format!("{line},noheader,nounits")), asked(Format { header: false, units: false }));
    let missing = parsed("--query-gpu=name").unwrap_err();
    assert!(missing.0.contains("--format="), "{missing:?}");
    assert_eq!(parsed("--query-gpu=name --format=xml"), Err(Refused::combination()));
    assert_eq!(parsed("-L --format=csv"), Err(Refused::combination()));
}

#[test]
fn the_log_by_sections() {
    let sections = vec![Section::Memory, Section::Ecc];
    assert_eq!(parsed("-q -d MEMORY,ecc"), Ok(Command::Query { targets: Targets::default(), sections }));
    assert_eq!(parsed("-q -d NOTHING"), Err(Refused::combination()));
    assert_eq!(parsed("-d MEMORY"), Err(Refused::combination()));
}

#[test]
fn instances_are_created_by_ids_names_and_places() {
    let words = ["mig", "-cgi", "9,MIG 3g.20gb,19:6", "-C", "-i", "0"].map(str::to_owned);
    let profiles = ["9", "MIG 3g.20gb", "19:6"].map(str::to_owned).to_vec();
    let action = MigAction::CreateGpuInstances { profiles, default_compute: true };
    assert_eq!(parse(&words), Ok(mig(targets(&["0"]), action)));
}

#[test]
fn the_profiles_of_compute_instances_may_be_left_out() {
    let default = MigAction::CreateComputeInstances { profiles: None };
    assert_eq!(parsed("mig -cci -i 0"), Ok(mig(targets(&["0"]), default.clone())));
    assert_eq!(parsed("mig -cci"), Ok(mig(Targets::default(), default)));
    let given = MigAction::CreateComputeInstances { profiles: Some(vec!["0".to_owned(), "1".to_owned()]) };
    let command = MigCommand {
        targets: targets(&["0"]),
        gpu_instances: Some(vec![1]),
        compute_instances: None,
        action: given,
    };
    assert_eq!(parsed("mig -i 0 -cci 0,1 -gi 1"), Ok(Command::Mig(command)));
}

#[test]
fn what_is_not_known_is_named() {
    let words = "ERROR: Option -lms100 is not recognized. Please run 'nvidia-smi -h' for help.\n\n";
    assert_eq!(parsed("-lms100"), Err(Refused(words.to_owned())));
    // The document of the DGX Station has a space inside of its list: the shell makes two words of it.
    let stray = parsed("mig -cgi 19,19,19, 14,14 -C").unwrap_err();
    assert!(stray.0.contains("Option 14,14 is not recognized"), "{stray:?}");
}

#[test]
fn one_thing_at_a_time() {
    assert_eq!(parsed("-L -q"), Err(Refused::combination()));
    for line in ["mig", "mig -lgi -lci", "mig -lgi -C", "mig -dci -gi x"] {
        let refused = parsed(line).unwrap_err();
        assert!(refused.0.starts_with("Invalid combination of input arguments."), "{line}: {refused:?}");
    }
    assert_eq!(parsed("mig -h"), Ok(Command::MigHelp));
}
