// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processing of one input file.

use super::arguments::Arguments;
use super::{attributes, bar, info, names};
use anyhow::{Context, Result, bail};
use lrz::backend::Packer;
use lrz::budget::Limit;
use lrz::output::Output;
use lrz::pack::{self, Source};
use lrz::parity;
use lrz::store::ReadAt;
use lrz::trace::Trace;
use lrz::unpack::{self, Target, Verified};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Packs, unpacks, tests, lists or repairs a file.
pub fn one(arguments: &Arguments, input: &Path) -> Result<()> {
    if arguments.repair {
        let report = parity::repair(input, &names::parity(input))?;
        say(arguments, &format!("{}: {report}", input.display()));
        return Ok(());
    }
    let trace = if arguments.trace.is_some() { Trace::on() } else { Trace::off() };
    let traced = arguments.trace.as_deref().map(|path| output(input, path, || Ok(Output::create(path, true)?)));
    let traced = traced.transpose().context("--trace")?;
    let done = if arguments.info || arguments.test || arguments.decompress {
        read(arguments, input, &trace)
    } else {
        write(arguments, input, &trace)
    };
    if let Some(out) = traced {
        out.file().write_all(trace.to_json().as_bytes()).context("--trace")?;
        out.finish().context("--trace")?;
    }
    done
}

fn say(arguments: &Arguments, what: &str) {
    if arguments.quiet < 2 && !arguments.very_quiet {
        eprintln!("{what}");
    }
}

/// Password from the options or, if one is needed, from a prompt.
fn password(arguments: &Arguments, wanted: bool) -> Result<Option<Vec<u8>>> {
    match &arguments.encrypt {
        Some(given) if !given.is_empty() => Ok(Some(given.clone().into_bytes())),
        None if !wanted => Ok(None),
        _ => {
            let typed = rpassword::prompt_password("Password: ").context("asking for the password")?;
            if typed.is_empty() {
                bail!(names::Usage("the password is empty".to_owned()));
            }
            if !arguments.decompress && !arguments.test && !arguments.info {
                let again = rpassword::prompt_password("Again: ").context("asking for the password")?;
                if again != typed {
                    bail!(names::Usage("the two passwords differ".to_owned()));
                }
            }
            Ok(Some(typed.into_bytes()))
        }
    }
}

fn memory(arguments: &Arguments) -> Limit {
    let limit = Limit::of_system(arguments.maxram.map(|hundreds| hundreds * 100_000_000));
    if arguments.verbose > 0 {
        say(arguments, &format!("memory: {} MB, set by {}", limit.bytes / 1_000_000, limit.because));
    }
    limit
}

fn threads(arguments: &Arguments) -> usize {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.threads.map_or(all, usize::from)
}

pub fn open(input: &Path) -> Result<File> {
    let file = File::open(input).context("cannot open")?;
    if !file.metadata()?.is_file() {
        bail!(names::Usage("not a regular file; use -r or tar for a directory".to_owned()));
    }
    Ok(file)
}

/// Creates an output, unless it is the input.
fn output(input: &Path, path: &Path, create: impl FnOnce() -> Result<Output>) -> Result<Output> {
    let same = |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    if !names::is_standard(input)
        && let (Ok(one), Ok(other)) = (input.metadata(), path.symlink_metadata())
        && same(one, other)
    {
        bail!(names::Usage(format!("{} is the input; expected another output file", path.display())));
    }
    create()
}

fn create(arguments: &Arguments, input: &Path, path: &Path) -> Result<Output> {
    let create = if arguments.named_temporary { Output::create_named } else { Output::create };
    output(input, path, || Ok(create(path, arguments.force)?))
}

/// Creates an unnamed temporary file for data that exceeds memory.
pub fn spool() -> Result<File> {
    tempfile::tempfile().context("creating a temporary file")
}

fn packer(arguments: &Arguments) -> Packer {
    match () {
        () if arguments.lzo => Packer::Lzo,
        () if arguments.gzip => Packer::Zlib,
        () if arguments.bzip2 => Packer::Bzip2,
        () if arguments.no_compress => Packer::None,
        () => Packer::Lzma,
    }
}

/// How to pack, without a password and without messages.
pub fn packing<'a>(arguments: &Arguments, trace: &'a Trace) -> pack::Options<'a> {
    pack::Options {
        packer: packer(arguments),
        level: arguments.level,
        threads: threads(arguments),
        memory: memory(arguments),
        window: arguments.window.map(|hundreds| hundreds * 100_000_000),
        unlimited: arguments.unlimited,
        threshold: !arguments.threshold,
        overlap: !arguments.no_overlap,
        search: !arguments.no_search,
        trace: Some(trace),
        ..pack::Options::default()
    }
}

fn write(arguments: &Arguments, input: &Path, trace: &Trace) -> Result<()> {
    let target = names::output(arguments, input)?;
    if target.is_none() && io::stdout().is_terminal() && !arguments.force {
        bail!(names::Usage("refusing to write an archive to a terminal; name the output with -o".to_owned()));
    }
    if target.is_none() && (arguments.recovery.is_some() || arguments.delete) {
        bail!(names::Usage("--recovery and -D need a named output".to_owned()));
    }
    let source = if names::is_standard(input) { None } else { Some(open(input)?) };
    let output = match &target {
        Some(path) => Some(create(arguments, input, path)?),
        None => None,
    };
    let spool = if output.is_none() { Some(spool()?) } else { None };
    let archive = output.as_ref().map(Output::file).or(spool.as_ref()).expect("an output or a spool file");
    let length = source.as_ref().map(|file| file.length()).transpose()?;
    let bar = bar::bar(arguments, length);
    let progress = |used: u64, written: u64| {
        bar.set_position(used);
        bar.set_message(format!("ratio {:.3}", used as f64 / written.max(1) as f64));
    };
    let log = |what: &str| say(arguments, what);
    let options = pack::Options {
        password: password(arguments, arguments.encrypt.is_some())?,
        progress: Some(&progress),
        log: (arguments.verbose > 0).then_some(&log),
        ..packing(arguments, trace)
    };
    let mut stdin = io::stdin();
    let source_of = match (&source, length) {
        (Some(file), Some(length)) => Source::File(file, length),
        _ => Source::Stream(&mut stdin),
    };
    let summary = pack::pack(source_of, archive, &options)?;
    bar.finish_and_clear();
    if !arguments.no_verify || arguments.delete {
        verify(archive, &options, &summary, source.as_ref())?;
    }
    if let Some(file) = &spool {
        let copied = copy_out(file, summary.packed);
        copied.context("writing to standard output")?;
    }
    if let (Some(output), Some(path)) = (output, &target) {
        complete(arguments, output, path, source.as_ref().map(|file| (file, input)))?;
    }
    if arguments.quiet == 0 {
        let ratio = summary.bytes as f64 / summary.packed.max(1) as f64;
        let line = format!("{}: {} -> {} bytes, ratio {ratio:.3}", input.display(), summary.bytes, summary.packed);
        say(arguments, &line);
    }
    print_md5(arguments, &summary.md5);
    Ok(())
}

/// Copies attributes, writes the parity, names the archive, then removes the input if requested.
fn complete(arguments: &Arguments, output: Output, path: &Path, source: Option<(&File, &Path)>) -> Result<()> {
    if let Some((source, _)) = source {
        attributes::copy(source, output.file()).iter().for_each(|failed| say(arguments, failed));
    }
    let parity = match arguments.recovery {
        Some(share) => Some(parity::create(output.file(), &names::parity(path), share / 100.0, arguments.force)?),
        None => None,
    };
    output.finish()?;
    if let Some(parity) = parity {
        parity.finish()?;
    }
    match source.filter(|_| arguments.delete) {
        Some((_, input)) => fs::remove_file(input).context("removing the input"),
        None => Ok(()),
    }
}

fn copy_out(file: &File, length: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        let part = buffer.len().min((length - at) as usize);
        file.read_exact_at(&mut buffer[..part], at)?;
        out.write_all(&buffer[..part])?;
        at += part as u64;
    }
    out.flush()
}

/// Unpacks the archive and compares the output with the input file; for a stream, with its MD5.
fn verify(archive: &File, how: &pack::Options<'_>, packed: &pack::Summary, source: Option<&File>) -> Result<()> {
    let options = unpack::Options {
        password: how.password.clone(),
        key_rounds: u64::MAX,
        threads: how.threads,
        memory: how.memory.clone(),
        trace: how.trace,
        ..unpack::Options::default()
    };
    let spool = spool()?;
    let target = source.map_or(Target::Nowhere(&spool), |source| Target::Compare(source, packed.md5));
    let summary = unpack::unpack(archive, target, &options).context("reading the archive back")?;
    if summary.md5 != packed.md5 || summary.bytes != packed.bytes {
        bail!("the archive does not unpack to the input");
    }
    Ok(())
}

fn print_md5(arguments: &Arguments, md5: &[u8; 16]) {
    if arguments.hash {
        let digits: String = md5.iter().map(|byte| format!("{byte:02x}")).collect();
        say(arguments, &format!("MD5: {digits}"));
    }
}

fn read(arguments: &Arguments, input: &Path, trace: &Trace) -> Result<()> {
    // Archive headers require random access, so a stream is first copied to a file.
    let archive = if names::is_standard(input) {
        let mut file = spool()?;
        io::copy(&mut io::stdin().lock(), &mut file).context("reading standard input")?;
        file
    } else {
        open(input)?
    };
    let given = password(arguments, encrypted(&archive))?;
    if arguments.info {
        return info::print(
            &input.display().to_string(),
            &archive,
            given.as_deref(),
            arguments.key_rounds,
            arguments.format,
        );
    }
    let target = if arguments.test { None } else { names::output(arguments, input)? };
    let output = match &target {
        Some(path) => Some(create(arguments, input, path)?),
        None => None,
    };
    let bar = bar::bar(arguments, unpack_length(&archive));
    let progress = |bytes: u64| bar.set_position(bytes);
    let options = unpack::Options {
        password: given,
        key_rounds: arguments.key_rounds,
        threads: threads(arguments),
        memory: memory(arguments),
        progress: Some(&progress),
        trace: Some(trace),
        ..unpack::Options::default()
    };
    let spool = if output.is_none() { Some(spool()?) } else { None };
    let mut stdout = io::stdout();
    let result = match (&output, &spool) {
        (Some(output), _) => unpack::unpack(&archive, Target::Store(output.file()), &options),
        (None, Some(spool)) if arguments.test => unpack::unpack(&archive, Target::Nowhere(spool), &options),
        (None, Some(spool)) => unpack::unpack(&archive, Target::Stream(&mut stdout, spool), &options),
        (None, None) => unreachable!("an output or a spool file exists"),
    };
    bar.finish_and_clear();
    if let (Err(_), true, Some(_)) = (&result, arguments.keep_broken, &output) {
        output.expect("just seen").finish()?;
        return Err(result.expect_err("just seen")).context("the partial output was kept");
    }
    let summary = result?;
    for warning in &summary.warnings {
        say(arguments, &format!("{}: warning: {warning}", input.display()));
    }
    if let Some(output) = output {
        attributes::copy(&archive, output.file()).iter().for_each(|failed| say(arguments, failed));
        output.finish()?;
        if arguments.delete && summary.verified != Verified::Nothing && !names::is_standard(input) {
            // Without its archive the parity is useless.
            let parity = Some(names::parity(input)).filter(|path| parity::is_of(path, &archive));
            fs::remove_file(input).context("removing the input")?;
            parity.map_or(Ok(()), |path| fs::remove_file(path).context("removing the parity"))?;
        }
    }
    if arguments.quiet == 0 && target.is_some() || arguments.test {
        say(arguments, &format!("{}: {} bytes, verified", input.display(), summary.bytes));
    }
    print_md5(arguments, &summary.md5);
    Ok(())
}

fn encrypted(archive: &File) -> bool {
    let mut magic = [0; lrz::format::MAGIC_BYTES];
    archive.read_exact_at(&mut magic, 0).is_ok() && &magic[..4] == b"LRZI" && magic[22] != 0
}

fn unpack_length(archive: &File) -> Option<u64> {
    let mut magic = [0; lrz::format::MAGIC_BYTES];
    archive.read_exact_at(&mut magic, 0).ok()?;
    lrz::format::Magic::parse(&magic).ok()?.size
}
