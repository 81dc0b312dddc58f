//! One command from its arguments to its status.

mod connections;
mod monitors;
mod others;
mod queries;
mod states;

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use nvml::{Code, Error, Library};

use crate::act::{self, Out, code_of};
use crate::arguments::{Command, LogForm, Refused, Repeated, Targets, UnitForm, parse};
use crate::ask::{self, Found, Selection};
use crate::clock::Clock;
use crate::exit::Exit;
use crate::generation::Driver;
use crate::help;
use crate::mig;
use crate::render::{list, log, summary};
use crate::snapshot::Gpu;

/// Runs nvidia-smi with these arguments by this clock, and returns the status
/// with which it ends.
pub fn run(arguments: &[String], clock: &mut dyn Clock, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match command(arguments, clock, out, err) {
        Ok(exit) => exit.0,
        // Nobody reads any more: there is nobody to tell either.
        Err(_) => Exit::OTHER.0,
    }
}

fn command(arguments: &[String], clock: &mut dyn Clock, out: Out<'_>, err: Out<'_>) -> io::Result<Exit> {
    let command = match parse(arguments) {
        Ok(command) => command,
        Err(Refused::Wrong(words)) => {
            write!(out, "{words}")?;
            return Ok(Exit::INVALID_ARGUMENT);
        }
        Err(Refused::Unknown(words)) => {
            write!(out, "{words}")?;
            return Ok(Exit::OTHER);
        }
        Err(Refused::ToldHow(words)) => {
            write!(out, "{words}{}", help::MONITORS)?;
            return Ok(Exit::SUCCESS);
        }
        Err(Refused::NotSimulated(word)) => {
            writeln!(err, "{word} is known to nvidia-smi, not simulated")?;
            return Ok(Exit::NOT_SIMULATED);
        }
    };
    let version = || Library::load(None).ok().and_then(|library| library.driver_version().ok());
    let asks_nothing = match &command {
        Command::MigHelp => Some(help::MIG.to_owned()),
        Command::MonitorHelp => Some(help::MONITORS.to_owned()),
        Command::HelpQuery(query) => {
            Some(help::query(*query, Driver::from_version(version().as_deref().unwrap_or_default())))
        }
        Command::Help => Some(help::general(version().as_deref())),
        _ => None,
    };
    if let Some(text) = asks_nothing {
        write!(out, "{text}")?;
        return Ok(Exit::SUCCESS);
    }
    if let Command::Dtd { file } = &command {
        let driver = Driver::from_version(version().as_deref().unwrap_or_default());
        let text = log::dtd(driver);
        return match file.as_deref().map(|name| (name, std::fs::write(name, &text))) {
            None => write!(out, "{text}").map(|()| Exit::SUCCESS),
            Some((_, Ok(()))) => Ok(Exit::SUCCESS),
            Some((name, Err(_))) => no_file(out, name),
        };
    }
    let library = match Library::load(None) {
        Ok(library) => library,
        Err(error) => return without_library(out, &error),
    };
    match file_of(&command) {
        None => Session { library: &library, clock, out, err }.run(command),
        Some(name) => match File::create(name) {
            Ok(mut file) => Session { library: &library, clock, out: &mut file, err }.run(command),
            Err(_) if matches!(command, Command::DeviceMonitor { .. } | Command::ProcessMonitor { .. }) => {
                writeln!(out, "Failed to process command line \n")?;
                Ok(Exit::OTHER)
            }
            Err(_) => no_file(out, name),
        },
    }
}

/// What is said where the file that `-f` names cannot be made (driver 580.159.04).
fn no_file(out: Out<'_>, name: &str) -> io::Result<Exit> {
    writeln!(out, "Failed to create the log file {name}\n")?;
    Ok(Exit::OTHER)
}

/// The file that `-f` names.
fn file_of(command: &Command) -> Option<&str> {
    match command {
        Command::Summary { repeated, .. }
        | Command::Log { repeated, .. }
        | Command::Query { repeated, .. } => repeated.file.as_deref(),
        Command::DeviceMonitor { file, .. }
        | Command::ProcessMonitor { file, .. }
        | Command::LogOfUnits { file, .. } => file.as_deref(),
        _ => None,
    }
}

/// What is said when the library cannot be used at all.
fn without_library(out: Out<'_>, error: &Error) -> io::Result<Exit> {
    match (error, code_of(error)) {
        (Error::NoLibrary { .. }, _) => {
            writeln!(
                out,
                "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\nPlease also try adding directory that contains libnvidia-ml.so to your system PATH."
            )?;
            Ok(Exit::LIBRARY_NOT_FOUND)
        }
        (_, code @ Code::DriverNotLoaded) => {
            writeln!(
                out,
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n"
            )?;
            Ok(Exit::from_code(code))
        }
        (_, code) => {
            writeln!(out, "Failed to initialize NVML: {}", code.words())?;
            Ok(Exit::from_code(code))
        }
    }
}

struct Session<'s> {
    library: &'s Library,
    clock: &'s mut dyn Clock,
    out: Out<'s>,
    err: Out<'s>,
}

impl Session<'_> {
    fn run(mut self, command: Command) -> io::Result<Exit> {
        match command {
            // They ask no GPU, and are answered before there is a session.
            Command::Help
            | Command::HelpQuery(_)
            | Command::MigHelp
            | Command::MonitorHelp
            | Command::Dtd { .. } => Ok(Exit::SUCCESS),
            Command::Version => self.version(),
            Command::Summary { targets, repeated } => self.repeat(&repeated, |session, _| {
                session.with(&targets, |session, all| {
                    let gpus = session.everything(&all.found)?;
                    let system = ask::system(session.library);
                    let text = summary::summary(&session.date(), &system, &gpus);
                    write!(session.out, "{text}")?;
                    Ok(Exit::SUCCESS)
                })
            }),
            Command::List(targets) => self.with(&targets, |session, all| {
                for found in &all.found {
                    match ask::listed(found) {
                        Ok(gpu) => write!(session.out, "{}", list::list(&gpu))?,
                        Err(error) => session.silent(found.index, code_of(&error))?,
                    }
                }
                Ok(Exit::SUCCESS)
            }),
            Command::Log { targets, form, repeated } => self.repeat(&repeated, |session, _| {
                session.with(&targets, |session, all| session.log(&all, &form))
            }),
            Command::Query { query, targets, fields, format, repeated } => {
                self.query(query, &targets, &fields, format, &repeated)
            }
            Command::SetMig { targets, on } => {
                self.with(&targets, |session, all| act::mode::set(session.out, &all.found, on))
            }
            Command::SetPersistence { targets, on } => self.with(&targets, |session, all| {
                act::persistence::set(session.out, session.library, &all.found, on)
            }),
            Command::SetPowerLimit { targets, milliwatts } => self.with(&targets, |session, all| {
                act::power::set(session.out, session.library, &all.found, milliwatts)
            }),
            Command::Reset(targets) => {
                self.with(&targets, |session, all| act::reset::reset(session.out, &all.found))
            }
            Command::Mig(command) => {
                let targets = command.targets.clone();
                self.with(&targets, |session, all| mig::run(session.out, session.library, all, &command))
            }
            Command::DeviceMonitor { targets, metrics, rounds, stamp, form, file: _ } => {
                self.device_monitor(&targets, &metrics, rounds, stamp, form)
            }
            Command::ProcessMonitor { targets, metrics, rounds, stamp, file: _ } => {
                self.process_monitor(&targets, &metrics, rounds, stamp)
            }
            Command::Topology(question) => self.topology(question),
            Command::Nvlink { targets, question } => self.nvlinks(&targets, question),
            Command::ComputePolicies(targets) => self.compute_policies(&targets),
            Command::BoostSliders(targets) => self.boost_sliders(&targets),
            Command::Vgpu(targets) => self.vgpus(&targets),
            Command::State(state) => self.state(state),
            Command::LogOfUnits { form, file: _ } => self.log_of_units(form),
            Command::ListExcluded => self.excluded(),
        }
    }

    /// Does something once, or until it fails or the clock ends. `work` is told
    /// whether it is the first time.
    fn repeat(
        &mut self,
        repeated: &Repeated,
        mut work: impl FnMut(&mut Self, bool) -> io::Result<Exit>,
    ) -> io::Result<Exit> {
        let mut first = true;
        loop {
            let exit = work(self, first)?;
            let Some(every) = repeated.every else { return Ok(exit) };
            self.out.flush()?;
            if exit != Exit::SUCCESS || !self.clock.wait(Duration::from_millis(every)) {
                return Ok(exit);
            }
            first = false;
        }
    }

    /// Does something with the GPUs that are meant. Those that do not answer
    /// are named; the others get their turn.
    fn with(
        &mut self,
        targets: &Targets,
        work: impl FnOnce(&mut Self, Selection<'_>) -> io::Result<Exit>,
    ) -> io::Result<Exit> {
        let library = self.library;
        let selection = match ask::select(library, targets) {
            Ok(Some(selection)) if selection.count > 0 => selection,
            Ok(_) => {
                writeln!(self.out, "No devices were found")?;
                return Ok(Exit::NOT_FOUND);
            }
            Err(error) => return without_library(self.out, &error),
        };
        let silent = selection.silent.clone();
        for (index, code) in &silent {
            self.silent(*index, *code)?;
        }
        let nobody = selection.found.is_empty();
        let exit = if nobody { Exit::SUCCESS } else { work(self, selection)? };
        Ok(match silent.first() {
            Some((_, code)) if exit == Exit::SUCCESS => Exit::from_code(*code),
            _ => exit,
        })
    }

    fn silent(&mut self, index: u32, code: Code) -> io::Result<()> {
        let words = match code {
            Code::GpuIsLost => "GPU is lost.  Reboot the system to recover this GPU",
            other => other.words(),
        };
        writeln!(self.err, "Unable to determine the device handle for GPU{index}: {words}")
    }

    fn everything(&mut self, found: &[Found<'_>]) -> io::Result<Vec<Gpu>> {
        let mut gpus = Vec::new();
        for found in found {
            match ask::everything(self.library, found) {
                Ok(gpu) => gpus.push(gpu),
                Err(error) => self.silent(found.index, code_of(&error))?,
            }
        }
        Ok(gpus)
    }

    fn log(&mut self, all: &Selection<'_>, form: &LogForm) -> io::Result<Exit> {
        let gpus = self.everything(&all.found)?;
        let system = ask::system(self.library);
        let text = match form {
            LogForm::Text(sections) => log::log(&self.date(), &system, &gpus, all.count, sections),
            LogForm::Xml { with_dtd } => log::document(&self.date(), &system, &gpus, all.count, *with_dtd),
        };
        write!(self.out, "{text}")?;
        Ok(Exit::SUCCESS)
    }

    fn log_of_units(self, form: UnitForm) -> io::Result<Exit> {
        let system = ask::system(self.library);
        let text = match form {
            UnitForm::Text => log::units(&self.date(), &system),
            UnitForm::Xml => log::document_of_units(&self.date(), &system),
        };
        write!(self.out, "{text}")?;
        Ok(Exit::SUCCESS)
    }

    /// The driver of a simulated machine leaves no GPU alone. How others are listed is not known.
    fn excluded(self) -> io::Result<Exit> {
        match self.library.nvml().excluded_device_count() {
            Ok(0) => {
                writeln!(self.out, "No excluded devices found.")?;
                Ok(Exit::SUCCESS)
            }
            Ok(_) => {
                writeln!(self.err, "-B is known to nvidia-smi, and its list of GPUs not simulated")?;
                Ok(Exit::NOT_SIMULATED)
            }
            Err(error) => {
                let error = Error::from_call("nvmlGetExcludedDeviceCount", error);
                act::failed(self.out, "list excluded devices", code_of(&error))
            }
        }
    }

    fn driver(&self) -> Driver {
        Driver::from_version(&ask::system(self.library).driver)
    }

    /// Now, as above the tables.
    fn date(&self) -> String {
        self.clock.now().strftime("%a %b %e %H:%M:%S %Y").to_string()
    }

    /// Now, as in the rows of queries.
    fn time(&self) -> String {
        self.clock.now().strftime("%Y/%m/%d %H:%M:%S.%3f").to_string()
    }

    fn version(self) -> io::Result<Exit> {
        let system = ask::system(self.library);
        // NVML's own version begins with CUDA's major one, and ends with the driver's patch.
        let nvml = system.nvml.unwrap_or_default();
        let nvml = nvml.split('.').skip(1).take(2).collect::<Vec<_>>().join(".");
        let cuda = system.cuda.as_deref().unwrap_or("N/A");
        let driver = &system.driver;
        writeln!(self.out, "NVIDIA-SMI version  : {driver}")?;
        writeln!(self.out, "NVML version        : {nvml}")?;
        writeln!(self.out, "DRIVER version      : {driver}")?;
        writeln!(self.out, "CUDA Version        : {cuda}")?;
        Ok(Exit::SUCCESS)
    }
}
