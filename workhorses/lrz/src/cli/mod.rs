// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `lrz`.

mod arguments;
mod attributes;
mod bar;
mod info;
mod names;
mod work;

use arguments::Arguments;
use clap::{CommandFactory, Parser};
use lrz::error::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, Write};
use std::process::ExitCode;

/// What went wrong for one file: whose fault decides the exit status.
const DAMAGED: u8 = 1;
const USAGE: u8 = 2;

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.man {
        return told(clap_mangen::Man::new(Arguments::command()).render(&mut io::stdout()));
    }
    if let Some(shell) = arguments.completions {
        clap_complete::generate(shell, &mut Arguments::command(), "lrz", &mut io::stdout());
        return ExitCode::SUCCESS;
    }
    if arguments.zpaq && !arguments.decompress && !arguments.test && !arguments.info {
        eprintln!("lrz: ZPAQ archives are read, not written; the strongest back end to write with is --lzma -L9");
        return ExitCode::from(USAGE);
    }
    if arguments.outfile.is_some() && arguments.files.len() > 1 {
        eprintln!("lrz: -o names one output, and there are {} inputs", arguments.files.len());
        return ExitCode::from(USAGE);
    }
    scarce_address_space();
    if let Err(error) = clean_up_after_signals() {
        eprintln!("lrz: signals: {error}");
        return ExitCode::from(DAMAGED);
    }
    if let Some(level) = arguments.nice_level
        && let Err(error) = rustix::process::setpriority_process(None, level)
    {
        eprintln!("lrz: -N {level}: {error}");
    }
    let files = match names::inputs(&arguments) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("lrz: reading folders: {error}");
            return ExitCode::from(DAMAGED);
        }
    };
    let mut worst = 0;
    for file in &files {
        if let Err(error) = work::one(&arguments, file) {
            eprintln!("lrz: {}: {error:#}", file.display());
            let bad_usage = error
                .downcast_ref::<Error>()
                .is_some_and(|error| matches!(error, Error::Foreign(_) | Error::NeedsPassword | Error::Unsupported(_)));
            worst = worst.max(if bad_usage || error.is::<names::Usage>() { USAGE } else { DAMAGED });
        }
    }
    ExitCode::from(worst)
}

/// A signal that ends the program takes away what has only a temporary name.
fn clean_up_after_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).stack_size(64 << 10).spawn(move || {
        for signal in signals.forever() {
            lrz::output::remove_temporaries();
            // As if nobody had caught it: a shell sees by which signal the program ended.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

fn told(result: io::Result<()>) -> ExitCode {
    match result.and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(DAMAGED),
    }
}

/// The allocator of glibc sets 64 MB of address space aside for each thread. Where `ulimit -v` counts them, threads
/// share one heap instead.
fn scarce_address_space() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        // SAFETY: mallopt is called before there is another thread, with numbers that its manual page gives.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}
