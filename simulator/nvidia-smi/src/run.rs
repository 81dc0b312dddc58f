//! One command from its arguments to its status.

use std::io::{self, Write};

use jiff::Zoned;
use nvml::{Code, Error, Library};

use crate::act::{self, Out, code_of};
use crate::arguments::{Command, Refused, Targets, parse};
use crate::ask::{self, Found, Selection};
use crate::exit::Exit;
use crate::help;
use crate::mig;
use crate::render::csv::{self, APP_FIELDS, App, Field, Format, GPU_FIELDS, Subject};
use crate::render::{list, query, summary};
use crate::snapshot::Gpu;

/// Runs nvidia-smi with these arguments at this time, and returns the status
/// with which it ends.
pub fn run(arguments: &[String], now: &Zoned, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match command(arguments, now, out, err) {
        Ok(exit) => exit.0,
        // Nobody reads any more: there is nobody to tell either.
        Err(_) => Exit::OTHER.0,
    }
}

fn command(arguments: &[String], now: &Zoned, out: Out<'_>, err: Out<'_>) -> io::Result<Exit> {
    let command = match parse(arguments) {
        Ok(command) => command,
        Err(Refused(words)) => {
            write!(out, "{words}")?;
            return Ok(Exit::INVALID_ARGUMENT);
        }
    };
    let asks_nothing = match &command {
        Command::MigHelp => Some(help::MIG.to_owned()),
        Command::HelpQueryGpu => Some(help::query_gpu()),
        Command::HelpQueryApps => Some(help::query_apps()),
        Command::Help => {
            let driver = Library::load(None).ok().and_then(|library| library.driver_version().ok());
            Some(help::general(driver.as_deref()))
        }
        _ => None,
    };
    if let Some(text) = asks_nothing {
        write!(out, "{text}")?;
        return Ok(Exit::SUCCESS);
    }
    match Library::load(None) {
        Ok(library) => Session { library: &library, now, out, err }.run(command),
        Err(error) => without_library(out, &error),
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
            Ok(Exit::of(code))
        }
        (_, code) => {
            writeln!(out, "Failed to initialize NVML: {}", code.words())?;
            Ok(Exit::of(code))
        }
    }
}

struct Session<'s> {
    library: &'s Library,
    now: &'s Zoned,
    out: Out<'s>,
    err: Out<'s>,
}

impl Session<'_> {
    fn run(mut self, command: Command) -> io::Result<Exit> {
        match command {
            Command::Help | Command::HelpQueryGpu | Command::HelpQueryApps | Command::MigHelp => {
                Ok(Exit::SUCCESS)
            }
            Command::Version => self.version(),
            Command::Summary(targets) => self.with(&targets, |session, all| {
                let gpus = session.everything(&all.found)?;
                let system = ask::system(session.library);
                let time = session.now.strftime("%a %b %e %H:%M:%S %Y").to_string();
                write!(session.out, "{}", summary::summary(&time, &system, &gpus))?;
                Ok(Exit::SUCCESS)
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
            Command::Query { targets, sections } => self.with(&targets, |session, all| {
                let gpus = session.everything(&all.found)?;
                let system = ask::system(session.library);
                let time = session.now.strftime("%a %b %e %H:%M:%S %Y").to_string();
                write!(session.out, "{}", query::query(&time, &system, &gpus, all.count, &sections))?;
                Ok(Exit::SUCCESS)
            }),
            Command::QueryGpu { targets, fields, format } => {
                let Some(fields) = self.fields(GPU_FIELDS, &fields)? else {
                    return Ok(Exit::INVALID_ARGUMENT);
                };
                self.with(&targets, |session, all| session.gpu_rows(&all, &fields, format))
            }
            Command::QueryApps { targets, fields, format } => {
                let Some(fields) = self.fields(APP_FIELDS, &fields)? else {
                    return Ok(Exit::INVALID_ARGUMENT);
                };
                self.with(&targets, |session, all| session.app_rows(&all, &fields, format))
            }
            Command::SetMig { targets, on } => {
                self.with(&targets, |session, all| act::mode::set(session.out, &all.found, on))
            }
            Command::SetPersistence { targets, on } => self.with(&targets, |session, all| {
                act::persistence::set(session.out, session.library, &all.found, on)
            }),
            Command::Reset(targets) => {
                self.with(&targets, |session, all| act::reset::reset(session.out, &all.found))
            }
            Command::Mig(command) => {
                let targets = command.targets.clone();
                self.with(&targets, |session, all| mig::run(session.out, session.library, all, &command))
            }
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
            Some((_, code)) if exit == Exit::SUCCESS => Exit::of(*code),
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

    fn fields<T>(
        &mut self,
        all: &'static [Field<T>],
        names: &str,
    ) -> io::Result<Option<Vec<&'static Field<T>>>> {
        match csv::find(all, names) {
            Ok(fields) => Ok(Some(fields)),
            Err(unknown) => {
                writeln!(self.out, "Field \"{unknown}\" is not a valid field to query.\n")?;
                Ok(None)
            }
        }
    }

    fn time(&self) -> String {
        self.now.strftime("%Y/%m/%d %H:%M:%S.%3f").to_string()
    }

    fn gpu_rows(
        &mut self,
        all: &Selection<'_>,
        fields: &[&Field<Subject>],
        format: Format,
    ) -> io::Result<Exit> {
        if format.header {
            write!(self.out, "{}", csv::header(fields))?;
        }
        let system = ask::system(self.library);
        for gpu in self.everything(&all.found)? {
            let subject = Subject { time: self.time(), system: system.clone(), count: all.count, gpu };
            write!(self.out, "{}", csv::row(fields, &subject, format))?;
        }
        Ok(Exit::SUCCESS)
    }

    fn app_rows(&mut self, all: &Selection<'_>, fields: &[&Field<App>], format: Format) -> io::Result<Exit> {
        if format.header {
            write!(self.out, "{}", csv::header(fields))?;
        }
        for gpu in self.everything(&all.found)? {
            for process in gpu.processes.iter().filter(|process| csv::computes(process)) {
                let app = App { time: self.time(), gpu: gpu.clone(), process: process.clone() };
                write!(self.out, "{}", csv::row(fields, &app, format))?;
            }
        }
        Ok(Exit::SUCCESS)
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
