// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random operations on a file of any mounted file system, compared with a flat vector: for mounts that the tests cannot
//! make, such as 9P in a virtual machine. Usage: fsx DIRECTORY [OPERATIONS [SEED]]

#[path = "../tests/suite/fsx/exercise.rs"]
mod exercise;
#[path = "../tests/suite/fsx/local.rs"]
mod local;
#[path = "../tests/suite/common/random.rs"]
mod random;

use exercise::{Interface, Run};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: fsx DIRECTORY [OPERATIONS [SEED]]";

fn main() -> ExitCode {
    match arguments().and_then(|(directory, run)| exercise_in(directory, &run)) {
        Ok(()) => ExitCode::SUCCESS,
        Err((message, code)) => {
            eprintln!("fsx: {message}");
            ExitCode::from(code)
        }
    }
}

/// A message and an exit status: 1 for a difference, 2 for wrong usage.
type Failure = (String, u8);

fn arguments() -> Result<(PathBuf, Run), Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let directory = arguments.next().ok_or((USAGE.to_owned(), 2))?;
    let mut number = || match arguments.next().map(|text| text.to_string_lossy().parse()) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err((USAGE.to_owned(), 2)),
    };
    let operations = number()?.unwrap_or(100_000);
    let seed = number()?.unwrap_or_else(|| getrandom::u32().unwrap_or(1).into());
    Ok((directory.into(), Run { operations, seed, longest: 512 << 10 }))
}

fn exercise_in(directory: PathBuf, run: &Run) -> Result<(), Failure> {
    println!("{run:?}");
    let path = directory.join("fsx");
    let mut file = local::LocalFile::create(path.clone(), None)
        .map_err(|error| (format!("{}: {error}; expected a writable directory", path.display()), 2))?;
    println!("operations of this file system: {:?}", file.kinds());
    let counts = exercise::exercise(&mut file, run).map_err(|difference| (difference, 1))?;
    let done: Vec<String> =
        counts.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{count} {kind:?}")).collect();
    println!("no difference: {}", done.join(", "));
    let _ = std::fs::remove_file(&path);
    Ok(())
}
