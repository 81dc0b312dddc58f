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
    let summary = |targets| Ok(Command::Summary { targets, repeated: Repeated::default() });
    assert_eq!(parsed(""), summary(Targets::default()));
    assert_eq!(parsed("-i 1"), summary(targets(&["1"])));
    assert_eq!(parsed("-L"), Ok(Command::List(Targets::default())));
}

#[test]
fn queries_have_fields_and_a_format() {
    let fields = "pci.bus_id,mig.mode.current".to_owned();
    let asked = |format| {
        let (query, targets, repeated) = (Query::Gpu, targets(&["0"]), Repeated::default());
        Ok(Command::Query { query, targets, fields: fields.clone(), format, repeated })
    };
    let line = "-i 0 --query-gpu=pci.bus_id,mig.mode.current --format=csv";
    assert_eq!(parsed(line), asked(Format { header: true, units: true }));
    assert_eq!(parsed(&format!("{line},noheader,nounits")), asked(Format { header: false, units: false }));
    assert_eq!(
        parsed("-i 0 --query-gpu=pci.bus_id,mig.mode.current"),
        asked(Format { header: true, units: true })
    );
    assert_eq!(parsed("--query-gpu=name --format=json"), Err(Refused::format()));
    assert_eq!(parsed("-L --format=csv"), Err(Refused::not_valid_here("--format=csv")));
    // Of two the last one counts.
    let last = parsed("--query-gpu=name --query-gpu=uuid");
    assert!(matches!(&last, Ok(Command::Query { fields, .. }) if fields == "uuid"), "{last:?}");
}

#[test]
fn the_log_by_sections() {
    let sections = vec![Section::Memory, Section::Ecc];
    let log = |form| Ok(Command::Log { targets: Targets::default(), form, repeated: Repeated::default() });
    assert_eq!(parsed("-q -d MEMORY,ecc"), log(LogForm::Text(sections)));
    assert_eq!(parsed("-q -x"), log(LogForm::Xml { with_dtd: false }));
    assert_eq!(parsed("-q -x --dtd"), log(LogForm::Xml { with_dtd: true }));
    assert_eq!(parsed("--dtd"), Ok(Command::Dtd { file: None }));
    assert_eq!(parsed("--dtd -f x"), Ok(Command::Dtd { file: Some("x".to_owned()) }));
    for line in ["-q --dtd", "--dtd -x", "--dtd -i 0", "--dtd -l 1", "--dtd -L"] {
        assert!(matches!(parsed(line), Err(Refused::Wrong(_))), "{line}");
    }
    assert_eq!(parsed("-a"), log(LogForm::Text(Vec::new())));
    // As the real one's help says of -d.
    assert_eq!(parsed("-q -x -d ECC"), Err(Refused::sections_of("-x/--xml-format")));
    assert_eq!(parsed("-x"), Err(Refused::goes_with_query("-x/--xml-format", "an XML")));
    assert_eq!(parsed("-q -d NOTHING"), Err(Refused::sections()));
    assert_eq!(parsed("-d MEMORY"), Err(Refused::goes_with_query("-d/--display", "a filtered")));
    assert_eq!(parsed("-q -q"), log(LogForm::Text(Vec::new())));
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

/// The words of a command line that is wrong.
#[track_caller]
fn words(refused: Refused) -> String {
    match refused {
        Refused::Wrong(words) | Refused::Unknown(words) | Refused::ToldHow(words) => words,
        Refused::NotSimulated(word) => panic!("{word} is taken for something that the real program has"),
    }
}

#[test]
fn what_is_not_known_is_named() {
    let refused = words(parsed("-lms100").unwrap_err());
    let expected = "ERROR: Option -lms100 is not recognized. Please run 'nvidia-smi -h'.\n\n";
    assert_eq!(refused, expected);
    // The document of the DGX Station has a space inside of its list: the shell makes two words of it.
    let stray = words(parsed("mig -cgi 19,19,19, 14,14 -C").unwrap_err());
    assert_eq!(stray, "Option \"14,14\" is not recognized.\n");
    for line in ["dmon -z", "pmon -z", "topo -z", "nvlink -z", "vgpu -z", "compute-policy -z"] {
        assert_eq!(words(parsed(line).unwrap_err()), "Option \"-z\" is not recognized.\n", "{line}");
    }
}

#[test]
fn what_only_the_real_program_has_is_no_typing_error() {
    for (line, word) in [
        ("-lgc 1500,1500", "-lgc"),
        ("--ecc-config=1 -i 0", "--ecc-config"),
        ("-c EXCLUSIVE_PROCESS", "-c"),
        ("-q -u -l", "-u"),
        ("vgpu -caa", "vgpu -caa"),
        ("compute-policy --set-timeslice 1", "compute-policy --set-timeslice"),
        ("clocks", "clocks"),
        ("topo -mp", "topo -mp"),
        ("nvlink -sLWidth 1", "nvlink -sLWidth"),
        ("dmon --gpm-metrics 1", "dmon --gpm-metrics"),
        ("-r bus", "-r bus"),
    ] {
        assert_eq!(parsed(line), Err(Refused::NotSimulated(word.to_owned())), "{line}");
    }
}

#[test]
fn output_is_repeated_and_goes_to_files_where_it_is_output() {
    let repeated = |every, file: Option<&str>| Repeated { every, file: file.map(str::to_owned) };
    let summary = |repeated| Ok(Command::Summary { targets: Targets::default(), repeated });
    for line in ["-l", "-l 5", "-l=5", "--loop=5", "-lms 5000", "--loop-ms=5000", "-lms often"] {
        assert_eq!(parsed(line), summary(repeated(Some(5000), None)), "{line}");
    }
    assert_eq!(parsed("-f out.txt"), summary(repeated(None, Some("out.txt"))));
    for line in ["-l 0", "-lms", "-lms 0", "-l 86401", "-L -l", "-mig 1 -f x"] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn monitors_choose_columns_and_rounds() {
    let rounds = Rounds { count: Some(5), delay: 2 };
    // In the order in which they are named.
    let metrics = vec![Metric::Memory, Metric::Power];
    let (file, stamp) = (None, Stamp { date: true, time: true });
    let command =
        Command::DeviceMonitor { targets: targets(&["1"]), metrics, rounds, stamp, form: Form::TABLE, file };
    assert_eq!(parsed("dmon -s mpm -c 5 -d 2 -i 1 -o TD"), Ok(command));
    let process = |metrics: &[ProcessMetric], stamp, file: Option<&str>| {
        Ok(Command::ProcessMonitor {
            targets: Targets::default(),
            metrics: metrics.to_vec(),
            rounds: Rounds { count: None, delay: 1 },
            stamp,
            file: file.map(str::to_owned),
        })
    };
    let load = ProcessMetric::Utilization;
    assert_eq!(parsed("pmon -f x"), process(&[load], Stamp::default(), Some("x")));
    let time = Stamp { date: false, time: true };
    assert_eq!(parsed("pmon -s mu -o T"), process(&[ProcessMetric::Memory, load], time, None));
    for line in [
        "dmon -c 0",
        "dmon -d 601",
        "dmon -s q",
        "dmon -s ",
        "dmon -o X",
        "dmon -o ",
        "pmon -s p",
        "pmon -c -1",
        "topo -c x",
        "topo -n 6 -i 0",
        "topo -n 4",
        "topo -p -i 0",
        "topo -p2p x",
        "topo -m -i 0",
        "topo -m -p2p r",
        "nvlink -r 0",
    ] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn connections_are_asked_about_in_five_ways() {
    for (line, question) in [
        ("topo -m", Topology::Matrix),
        ("topo -c 48", Topology::NearCpu(48)),
        ("topo -i 1 -n 4", Topology::Nearest { path: Path::Cpu, gpu: "1".to_owned() }),
        ("topo --gpu_path -i 0,3", Topology::Between(["0", "3"].map(str::to_owned))),
        ("topo -p2p n", Topology::Peers(PeerAccess::NvLink)),
    ] {
        assert_eq!(parsed(line), Ok(Command::Topology(question)), "{line}");
    }
    let question = NvlinkQuestion::Other("-R");
    assert_eq!(parsed("nvlink -R -i 1"), Ok(Command::Nvlink { targets: targets(&["1"]), question }));
    let units = Command::LogOfUnits { form: UnitForm::Text, file: None };
    assert_eq!(parsed("-q -u"), Ok(units));
    assert_eq!(parsed("-B"), Ok(Command::ListExcluded));
}

#[test]
fn power_is_set_in_watts() {
    for (line, milliwatts) in [("-pl 300", 300_000), ("-pl=300.5", 300_500), ("--power-limit 0.125", 125)] {
        let command = Command::SetPowerLimit { targets: Targets::default(), milliwatts };
        assert_eq!(parsed(line), Ok(command), "{line}");
    }
    for line in ["-pl", "-pl x", "-pl -1", "-pl 1.2345", "-pl .5", "-pl 99999999999"] {
        assert!(parsed(line).is_err(), "{line}");
    }
}

#[test]
fn one_thing_at_a_time() {
    for (line, named) in
        [("-L -q", "-q"), ("-f x -L", "-f"), ("--id=0 -L", "--id=0"), ("-q -B", "-q"), ("-h -i 0", "-i")]
    {
        assert_eq!(parsed(line), Err(Refused::not_valid_here(named)), "{line}");
    }
    assert_eq!(parsed("-L -L"), Err(Refused::one_at_a_time()));
    assert_eq!(parsed("mig"), Ok(Command::MigHelp));
    for line in ["mig -lgi -lci", "mig -lgi -C", "mig -dci -gi x"] {
        let refused = words(parsed(line).unwrap_err());
        assert!(refused.starts_with("Invalid combination of input arguments."), "{line}: {refused}");
    }
    assert_eq!(parsed("mig -h"), Ok(Command::MigHelp));
}

/// Every option and subcommand in the help of drivers 590 and 595, as captured.
const OPTIONS_OF_THE_HELP: &str = "
--accounting-mode --applications-clocks --auto-boost-default --auto-boost-permission
--clear-accounted-apps --columns --compute-mode --cuda-clocks --debug --display --dram-encryption
--dtd --ecc-config --error-on-warning --filename --format --get-hostname --gom --gpu-reset
--gpu-target-temp --help --help-query-accounted-apps --help-query-compute-apps --help-query-gpu
--help-query-remapped-rows --help-query-retired-pages --help-query-supported-clocks --id
--list-excluded-gpus --list-gpus --lock-gpu-clocks --lock-memory-clocks
--lock-memory-clocks-deferred --loop --loop-ms --mode --multi-instance-gpu --persistence-mode
--power-limit --query --query-accounted-apps --query-compute-apps --query-gpu --query-remapped-rows
--query-retired-pages --query-supported-clocks --reset-applications-clocks --reset-ecc-errors
--reset-gpu-clocks --reset-memory-clocks --reset-memory-clocks-deferred --scope --set-hostname
--toggle-led --unit --version --virt-mode --xml-format -B -L -ac -am -c -caa -cc -col -d -den -e
-eow -f -gtt -h -i -l -lgc -lmc -lmcd -lms -m -mig -p -pl -pm -q -r -rac -rgc -rmc -rmcd -sc -t -u
-vm -x";
const SUBCOMMANDS_OF_THE_HELP: &str = "
base-clocks boost-slider c2c clocks compute-policy conf-compute daemon dmon drain encodersessions
fbcsessions gpm mig nvlink pci pmon power-hint power-profiles power-smoothing prm replay rusd soc
topo vgpu";

#[test]
fn nothing_that_the_real_help_names_is_taken_for_a_typing_error() {
    let unknown = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let about = format!("Option {} is not recognized", words[0]);
        matches!(parse(&words), Err(Refused::Wrong(said) | Refused::Unknown(said)) if said.contains(&about))
    };
    for option in OPTIONS_OF_THE_HELP.split_whitespace() {
        assert!(!unknown(&[option, "0"]), "{option}");
    }
    for subcommand in SUBCOMMANDS_OF_THE_HELP.split_whitespace() {
        assert!(!unknown(&[subcommand]), "{subcommand}");
    }
    assert!(unknown(&["--power-limits"]) && unknown(&["nvlinks"]));
}
