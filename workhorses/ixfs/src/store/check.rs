// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verification of a whole store: superblocks, log, every checksum, and the tree's own rules.

use super::device::Device;
use super::load::{self, read_object};
use super::{Gap, Ptr, Recovery, Result, Store};
use crate::tree::{Body, Entry, Ino, ROOT, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a check found.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Report {
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
    /// What was repaired.
    pub repairs: Vec<String>,
    /// What recovery did.
    pub recovery: Recovery,
    /// Inodes in the tree.
    pub inodes: u64,
    /// Pages of files verified, archived ones included.
    pub pages: u64,
    /// Archived epochs verified.
    pub epochs: usize,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Verifies a store; with `repair`, also mends what can be mended and writes a new snapshot.
///
/// # Errors
/// Neither snapshot can be loaded; nothing is then repaired.
pub fn check(device: Arc<dyn Device>, repair: bool, now: i64) -> Result<Report> {
    let mut report = Report::default();
    let mut mended_log = None;
    for (slot, superblock) in load::superblocks(&*device)?.into_iter().enumerate() {
        if let Err(error) = superblock
            && !load::is_empty(&*device, slot)
        {
            report.problems.push(format!("superblock {slot}: {error}"));
        }
    }
    let (store, mut tree, recovery) = Store::open_before_gap(device.clone())?;
    if let Some(gap) = &recovery.gap {
        let Gap { damaged, block, last, files } = gap;
        report.problems.push(format!(
            "block {block}: log batch {damaged} is damaged; acknowledged changes in it and in those behind it, up to \
             {last}, are lost"
        ));
        report.problems.extend(files.iter().map(|file| format!("{file}: later changes are lost")));
        mended_log = Some(format!("went back to the state before log batch {damaged}"));
    }
    if recovery.fallback {
        report.problems.push("newest snapshot is unusable: the one before was taken, with its longer log".to_owned());
    }
    for path in &recovery.damaged_files {
        report.problems.push(format!("{path}: content does not match its checksum; reading it gives EIO"));
    }
    report.recovery = recovery;
    report.inodes = tree.count;
    report.pages = count_pages(&tree);
    verify_epochs(&*device, &store, &mut report);
    let mended = verify_tree(&mut tree, &mut report);
    if repair && !report.is_sound() {
        store.snapshot(&|| tree.freeze(), now, None)?;
        store.snapshot(&|| tree.freeze(), now, None)?;
        report.repairs = mended_log.into_iter().chain(mended).collect();
        report.repairs.push("wrote both superblocks and a new snapshot".to_owned());
    }
    Ok(report)
}

fn count_pages(tree: &Tree) -> u64 {
    let count = |inode: &Arc<crate::tree::Inode>| match &inode.body {
        Body::File(data) => data.count(),
        _ => 0,
    };
    tree.inodes.range(0).map(|(_, inode)| count(inode)).sum()
}

fn verify_epochs(device: &dyn Device, store: &Store, report: &mut Report) {
    // Epochs share most pages: each is read once.
    let mut seen: BTreeMap<u32, bool> = BTreeMap::new();
    for epoch in store.epochs() {
        let tree = match store.load_epoch(&epoch) {
            Ok(tree) => tree,
            Err(error) => {
                report.problems.push(format!("archive/{}: {error}", epoch.name));
                continue;
            }
        };
        report.epochs += 1;
        for (ino, inode) in tree.inodes.range(0) {
            let Body::File(data) = &inode.body else { continue };
            let mut whole = |ptr: Ptr| *seen.entry(ptr.block).or_insert_with(|| read_object(device, ptr).is_ok());
            let broken = data.pages.range(0).filter_map(|(_, page)| page.ptr()).any(|ptr| !whole(ptr));
            report.pages += data.count();
            if broken {
                let path = tree.path_of(ino).unwrap_or_else(|| format!("inode {ino}"));
                report.problems.push(format!("archive/{}{path}: content does not match its checksum", epoch.name));
            }
        }
    }
}

/// Verifies names, link counts and parents of the tree and repairs those that are wrong. Returns a description of
/// each repair.
fn verify_tree(tree: &mut Tree, report: &mut Report) -> Vec<String> {
    let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
    let mut dangling: Vec<(Ino, u64, Entry)> = Vec::new();
    let mut parents: Vec<(Ino, Ino)> = Vec::new();
    for (ino, inode) in tree.inodes.range(0) {
        let Body::Dir(dir) = &inode.body else { continue };
        for (cookie, entry) in dir.entries.range(0) {
            match tree.inode(entry.ino) {
                Ok(child) if child.kind() == entry.kind() => {
                    *links.entry(entry.ino).or_default() += 1;
                    if let Body::Dir(below) = &child.body {
                        *links.entry(ino).or_default() += 1;
                        if below.parent != ino {
                            parents.push((entry.ino, ino));
                        }
                    }
                }
                _ => dangling.push((ino, cookie, entry.clone())),
            }
        }
    }
    let mut mended = Vec::new();
    for (dir, cookie, entry) in dangling {
        let name = String::from_utf8_lossy(entry.name()).into_owned();
        report.problems.push(format!("name {name} in inode {dir} refers to no inode of its type"));
        edit(tree, dir, |body| {
            if let Body::Dir(dir) = body {
                dir.entries.remove(cookie);
                dir.count -= 1;
            }
        });
        mended.push(format!("removed name {name} from inode {dir}"));
    }
    for (ino, parent) in parents {
        report.problems.push(format!("directory {ino} names another parent than {parent}"));
        edit(tree, ino, |body| {
            if let Body::Dir(dir) = body {
                dir.parent = parent;
            }
        });
        mended.push(format!("set the parent of directory {ino}"));
    }
    mend_links(tree, &links, report, &mut mended);
    tree.recount();
    mended
}

fn edit(tree: &mut Tree, ino: Ino, change: impl FnOnce(&mut Body)) {
    if let Some(inode) = tree.inodes.get_mut(ino) {
        change(&mut Arc::make_mut(inode).body);
    }
}

fn mend_links(tree: &mut Tree, links: &BTreeMap<Ino, u32>, report: &mut Report, mended: &mut Vec<String>) {
    let mut wrong: Vec<(Ino, u32, u32)> = Vec::new();
    for (ino, inode) in tree.inodes.range(0) {
        let names = links.get(&ino).copied().unwrap_or(0);
        let is_dir = inode.kind() == libc::S_IFDIR;
        // A directory counts its own `.`, and the root has no name.
        let expected = names + u32::from(is_dir) + u32::from(ino == ROOT);
        if inode.nlink != expected || (names == 0 && ino != ROOT) {
            wrong.push((ino, inode.nlink, expected));
        }
    }
    for (ino, found, expected) in wrong {
        report.problems.push(format!("inode {ino} has a link count of {found}, expected {expected}"));
        if links.contains_key(&ino) || ino == ROOT {
            if let Some(inode) = tree.inodes.get_mut(ino) {
                Arc::make_mut(inode).nlink = expected;
            }
            mended.push(format!("set the link count of inode {ino}"));
        } else {
            tree.inodes.remove(ino);
            mended.push(format!("removed inode {ino}, which has no name"));
        }
    }
}
