// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ixfs archive`.

use super::arguments::Archive;
use super::status::{id_of, store_of};
use super::{DAMAGED, open};
use anyhow::{Context, bail};
use ixfs::server::{Durability, Server, now};
use ixfs::store::device::{Device, FileDevice};
use ixfs::store::{Store, epochs};
use ixfs::tree::Tree;
use ixfs::{control, stream};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// `ixfs archive`.
pub fn run(options: &Archive) -> anyhow::Result<ExitCode> {
    let store = store_of(&options.place)?;
    if let Some(name) = &options.export {
        let device: Arc<dyn Device> = Arc::new(shared(&store)?);
        let mut out = BufWriter::new(io::stdout().lock());
        return Ok(match stream::export(&device, name, options.since.as_deref(), &mut out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error @ stream::StreamError::NoEpoch(_)) => bail!("{}: {error}", store.display()),
            Err(error) => {
                eprintln!("ixfs: {}: {error}", store.display());
                ExitCode::from(DAMAGED)
            }
        });
    }
    if let Some(file) = &options.import {
        return import(&store, file);
    }
    if options.list {
        let (_, list) = stream::epochs_of(&shared(&store)?).with_context(|| format!("{}", store.display()))?;
        let mut out = io::stdout().lock();
        for epoch in list {
            if options.format.is_json() {
                let line = json!({ "name": epoch.name, "time_ns": epoch.time, "generation": epoch.generation });
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{}", epoch.name)?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    match options.keep {
        Some(keep) => drop_old(&store, keep, options),
        None => show(options, &request(&store, &format!("archive {}", options.name.as_deref().unwrap_or("")))?),
    }
}

/// Opens a store that a server may be using. What is read of it does not change.
fn shared(store: &Path) -> anyhow::Result<FileDevice> {
    FileDevice::open_shared(store).with_context(|| format!("{}", store.display()))
}

/// Sends a request to the store's server, or does what a server would do where there is none.
fn request(store: &Path, request: &str) -> anyhow::Result<Value> {
    if let Some(reply) = control::ask(&id_of(store)?, request.trim()).context("control socket")? {
        return Ok(reply);
    }
    let opened = Store::open(open(store)?).with_context(|| format!("{}", store.display()))?;
    let server = Server::new(opened, Durability::Always).with_context(|| format!("{}", store.display()))?;
    Ok(control::respond(&server, request.trim()))
}

fn show(options: &Archive, reply: &Value) -> anyhow::Result<ExitCode> {
    if let Some(error) = reply["error"].as_str() {
        bail!("{}: {error}", options.place.display());
    }
    if options.format.is_json() {
        println!("{reply}");
    } else {
        let dropped = reply["dropped"].as_str().map(|name| format!("dropped {name}"));
        println!("{}", dropped.as_deref().or(reply["epoch"].as_str()).unwrap_or_default());
    }
    io::stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}

fn drop_old(store: &Path, keep: usize, options: &Archive) -> anyhow::Result<ExitCode> {
    let (_, list) = stream::epochs_of(&shared(store)?).with_context(|| format!("{}", store.display()))?;
    for epoch in &list[..list.len().saturating_sub(keep)] {
        show(options, &request(store, &format!("drop {}", epoch.name))?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a stream's epoch the live tree of a store and archives it there.
fn import(store: &Path, file: &Path) -> anyhow::Result<ExitCode> {
    let mut input = BufReader::new(File::open(file).with_context(|| format!("{}", file.display()))?);
    let (header, chain) = stream::read_header(&mut input).with_context(|| format!("{}", file.display()))?;
    let (opened, live, _) = Store::open(open(store)?).with_context(|| format!("{}", store.display()))?;
    if !epochs::is_name(&header.name) {
        bail!("{}: the epoch has the impossible name {:?}", file.display(), header.name);
    }
    let mut tree = if header.base.is_empty() {
        Tree { inodes: Default::default(), ..live.freeze() }
    } else {
        let base = opened.epochs().into_iter().find(|epoch| epoch.name == header.base);
        let base = base.ok_or_else(|| stream::StreamError::NoBase(header.base.clone()))?;
        opened.load_epoch(&base).with_context(|| format!("{}", store.display()))?
    };
    stream::import(&mut tree, &mut input, chain).with_context(|| format!("{}", file.display()))?;
    if tree.used > tree.limit {
        bail!("{}: the epoch needs {} bytes, the store's quota is {}", store.display(), tree.used, tree.limit);
    }
    tree.next_ino = tree.next_ino.max(live.next_ino);
    opened.snapshot(&|| tree.freeze(), now(), Some(&header.name)).with_context(|| format!("{}", store.display()))?;
    println!("imported {}", header.name);
    Ok(ExitCode::SUCCESS)
}
