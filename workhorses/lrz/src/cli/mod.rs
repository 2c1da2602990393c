// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `lrz` command.

mod arguments;
mod attributes;
mod bar;
mod compare;
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

/// Exit status for a damaged archive or an I/O error; `USAGE` is for bad usage.
const DAMAGED: u8 = 1;
const USAGE: u8 = 2;

/// Runs the command and returns its exit status.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.man {
        return exit_status(clap_mangen::Man::new(Arguments::command()).render(&mut io::stdout()));
    }
    if let Some(shell) = arguments.completions {
        clap_complete::generate(shell, &mut Arguments::command(), "lrz", &mut io::stdout());
        return ExitCode::SUCCESS;
    }
    if arguments.zpaq && !arguments.decompress && !arguments.test && !arguments.info {
        eprintln!("lrz: ZPAQ is supported for unpacking only; use --lzma -L9 for the best ratio");
        return ExitCode::from(USAGE);
    }
    if arguments.compare_overlap && arguments.files.iter().all(|file| names::is_standard(file)) {
        eprintln!("lrz: --compare-overlap packs its input twice; expected a file, not standard input");
        return ExitCode::from(USAGE);
    }
    if arguments.outfile.is_some() && arguments.files.len() > 1 {
        eprintln!("lrz: -o takes one input, but {} were given", arguments.files.len());
        return ExitCode::from(USAGE);
    }
    share_one_arena_if_address_space_is_limited();
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
            eprintln!("lrz: reading directories: {error}");
            return ExitCode::from(DAMAGED);
        }
    };
    let mut worst = 0;
    for file in &files {
        let run = if arguments.compare_overlap { compare::compare } else { work::one };
        if let Err(error) = run(&arguments, file) {
            eprintln!("lrz: {}: {error:#}", file.display());
            let bad_usage = error
                .downcast_ref::<Error>()
                .is_some_and(|error| matches!(error, Error::Foreign(_) | Error::NeedsPassword | Error::Unsupported(_)));
            worst = worst.max(if bad_usage || error.is::<names::Usage>() { USAGE } else { DAMAGED });
        }
    }
    ExitCode::from(worst)
}

/// Removes named temporary files when SIGINT, SIGTERM or SIGHUP ends the process.
fn clean_up_after_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).stack_size(64 << 10).spawn(move || {
        for signal in signals.forever() {
            lrz::output::remove_temporaries_and(|| {
                // Die of the signal itself, so that a shell sees which one it was.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        }
    })?;
    Ok(())
}

fn exit_status(result: io::Result<()>) -> ExitCode {
    match result.and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(DAMAGED),
    }
}

/// glibc's allocator reserves 64 MB of address space per thread. If `ulimit -v` limits the address space, all threads
/// share one arena instead.
fn share_one_arena_if_address_space_is_limited() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        // SAFETY: mallopt is called before other threads exist, with a parameter from its manual page.
        #[allow(unsafe_code)]
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}
