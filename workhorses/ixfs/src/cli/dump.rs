// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ixfs dump`.

use super::arguments::Dump;
use anyhow::Context;
use ixfs::store::Store;
use ixfs::store::device::FileDevice;
use ixfs::tree::{Attr, Body, Inode, ROOT, Tree};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// `ixfs dump`.
pub fn run(options: &Dump) -> anyhow::Result<ExitCode> {
    let store = options.store.display();
    let device = super::locked::open_locked(&options.store, FileDevice::open_read_only)?;
    let (opened, tree, _) = Store::open(Arc::new(device)).with_context(|| format!("{store}"))?;
    let tree = match &options.epoch {
        None => tree,
        Some(name) => {
            let epoch = opened.epochs().into_iter().find(|epoch| epoch.name == *name);
            let epoch = epoch.with_context(|| format!("{store}: no epoch {name}; `ixfs archive --list` shows them"))?;
            opened.load_epoch(&epoch).with_context(|| format!("{store}"))?
        }
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    walk(&tree, options.format.is_json(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints all files, each directory before what it holds: one line each. Directories may be nested to any depth.
fn walk(tree: &Tree, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let mut stack = vec![(ROOT, String::new())];
    while let Some((ino, path)) = stack.pop() {
        let Ok(inode) = tree.inode(ino) else {
            writeln!(out, "{path}: no inode {ino}; run `ixfs check`")?;
            continue;
        };
        print(inode, if path.is_empty() { "/" } else { &path }, json, out)?;
        if let Body::Dir(dir) = &inode.body {
            let mut entries: Vec<_> = dir.entries.range(0).map(|(_, entry)| entry.clone()).collect();
            entries.sort_by(|a, b| b.name().cmp(a.name()));
            stack.extend(
                entries.iter().map(|entry| (entry.ino, format!("{path}/{}", String::from_utf8_lossy(entry.name())))),
            );
        }
    }
    Ok(())
}

fn print(inode: &Inode, path: &str, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let attr = inode.attr();
    let target = match &inode.body {
        Body::Symlink(target) => Some(String::from_utf8_lossy(target).into_owned()),
        _ => None,
    };
    if json {
        let line = json!({
            "path": path, "ino": attr.ino, "mode": format!("{:o}", attr.mode), "uid": attr.uid, "gid": attr.gid,
            "nlink": attr.nlink, "size": attr.size, "blocks": attr.blocks, "mtime_ns": attr.mtime, "target": target,
        });
        writeln!(out, "{line}")?;
    } else {
        let target = target.map_or(String::new(), |target| format!(" -> {target}"));
        let Attr { ino, mode, nlink, uid, gid, size, .. } = attr;
        writeln!(out, "{ino:>8} {mode:>6o} {nlink:>3} {uid:>5} {gid:>5} {size:>12} {path}{target}")?;
    }
    Ok(())
}
