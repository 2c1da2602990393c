// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree against a naive model: paths are resolved by hand, content is a vector, permission bits are ignored.

use ixfs::tree::attributes::{SetAttr, XattrFlags};
use ixfs::tree::names::New;
use ixfs::tree::permission::{EXECUTE, READ, WRITE};
use ixfs::tree::{Body, Caller, Ino, ROOT, RenameFlags, Tree};
use proptest::prelude::*;
use rustix::io::Errno;
use std::collections::BTreeMap;

/// A file of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum File {
    Data(Vec<u8>),
    Dir(BTreeMap<String, usize>),
    Symlink(String),
}

/// The model: files by number, number 0 is the root. Nothing is ever reused.
#[derive(Clone, Debug)]
struct Model {
    files: Vec<File>,
}

type Answer = Result<(), Errno>;

impl Model {
    fn dir(&self, at: usize) -> &BTreeMap<String, usize> {
        match &self.files[at] {
            File::Dir(names) => names,
            _ => panic!("not a directory"),
        }
    }

    fn dir_mut(&mut self, at: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.files[at] {
            File::Dir(names) => names,
            _ => panic!("not a directory"),
        }
    }

    fn is_dir(&self, at: usize) -> bool {
        matches!(self.files[at], File::Dir(_))
    }

    /// Names of a file, counted over the whole model.
    fn links(&self, wanted: usize) -> usize {
        let mut count = 0;
        let mut stack = vec![0];
        while let Some(at) = stack.pop() {
            for child in self.dir(at).values() {
                count += usize::from(*child == wanted);
                if self.is_dir(*child) {
                    stack.push(*child);
                }
            }
        }
        count
    }

    fn below(&self, dir: usize, wanted: usize) -> bool {
        dir == wanted || self.dir(dir).values().any(|child| self.is_dir(*child) && self.below(*child, wanted))
    }

    fn create(&mut self, dir: usize, name: &str, file: File) -> Answer {
        if self.dir(dir).contains_key(name) {
            return Err(Errno::EXIST);
        }
        self.files.push(file);
        let number = self.files.len() - 1;
        self.dir_mut(dir).insert(name.to_owned(), number);
        Ok(())
    }

    fn remove(&mut self, dir: usize, name: &str, directory: bool) -> Answer {
        let at = *self.dir(dir).get(name).ok_or(Errno::NOENT)?;
        match (directory, self.is_dir(at)) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            (true, true) if !self.dir(at).is_empty() => Err(Errno::NOTEMPTY),
            _ => {
                self.dir_mut(dir).remove(name);
                Ok(())
            }
        }
    }

    fn rename(&mut self, from: (usize, &str), to: (usize, &str), flags: RenameFlags) -> Answer {
        let source = *self.dir(from.0).get(from.1).ok_or(Errno::NOENT)?;
        let target = self.dir(to.0).get(to.1).copied();
        if flags.no_replace && target.is_some() {
            return Err(Errno::EXIST);
        }
        if flags.exchange {
            let target = target.ok_or(Errno::NOENT)?;
            let loops =
                self.is_dir(source) && self.below(source, to.0) || self.is_dir(target) && self.below(target, from.0);
            if loops {
                return Err(Errno::INVAL);
            }
            self.dir_mut(from.0).insert(from.1.to_owned(), target);
            self.dir_mut(to.0).insert(to.1.to_owned(), source);
            return Ok(());
        }
        if target == Some(source) {
            return Ok(());
        }
        if self.is_dir(source) && self.below(source, to.0) {
            return Err(Errno::INVAL);
        }
        if let Some(target) = target {
            match (self.is_dir(source), self.is_dir(target)) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) if !self.dir(target).is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            }
        }
        self.dir_mut(from.0).remove(from.1);
        self.dir_mut(to.0).insert(to.1.to_owned(), source);
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8),
    Mkdir(u8, u8),
    Symlink(u8, u8),
    Link(u8, u8, u8, u8),
    Unlink(u8, u8),
    Rmdir(u8, u8),
    Rename(u8, u8, u8, u8, u8),
    Write(u8, u8, u16, u16),
    Truncate(u8, u8, u16),
    Freeze,
}

fn step() -> impl Strategy<Value = Step> {
    let (d, n) = (|| 0..6_u8, || 0..4_u8);
    prop_oneof![
        3 => (d(), n()).prop_map(|(d, n)| Step::Create(d, n)),
        3 => (d(), n()).prop_map(|(d, n)| Step::Mkdir(d, n)),
        1 => (d(), n()).prop_map(|(d, n)| Step::Symlink(d, n)),
        2 => (d(), n(), d(), n()).prop_map(|(a, b, c, e)| Step::Link(a, b, c, e)),
        2 => (d(), n()).prop_map(|(d, n)| Step::Unlink(d, n)),
        1 => (d(), n()).prop_map(|(d, n)| Step::Rmdir(d, n)),
        4 => (d(), n(), d(), n(), 0..3_u8).prop_map(|(a, b, c, e, f)| Step::Rename(a, b, c, e, f)),
        3 => (d(), n(), 0..9000_u16, 1..5000_u16).prop_map(|(d, n, at, len)| Step::Write(d, n, at, len)),
        1 => (d(), n(), 0..12000_u16).prop_map(|(d, n, len)| Step::Truncate(d, n, len)),
        1 => Just(Step::Freeze),
    ]
}

/// The directories that can be reached, in an order that both sides share.
fn dirs(tree: &Tree, model: &Model) -> Vec<(Ino, usize)> {
    let mut found = vec![(ROOT, 0)];
    let mut next = 0;
    while next < found.len() {
        let (ino, at) = found[next];
        for (name, child) in model.dir(at) {
            if model.is_dir(*child) {
                let ino = tree.lookup(&Caller::root(0), ino, name.as_bytes()).unwrap();
                found.push((ino, *child));
            }
        }
        next += 1;
    }
    found
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn compare(tree: &Tree, model: &Model) -> Result<(), TestCaseError> {
    let mut reached = 1;
    let mut seen = BTreeMap::new();
    for (ino, at) in dirs(tree, model) {
        let inode = tree.inode(ino).unwrap();
        let Body::Dir(dir) = &inode.body else { panic!("not a directory") };
        let names: Vec<String> =
            dir.entries.range(0).map(|(_, entry)| String::from_utf8(entry.name().to_vec()).unwrap()).collect();
        prop_assert_eq!(names.len(), model.dir(at).len());
        prop_assert_eq!(dir.count as usize, names.len());
        let subdirs = model.dir(at).values().filter(|child| model.is_dir(**child)).count();
        prop_assert_eq!(inode.nlink as usize, 2 + subdirs);
        for (name, child) in model.dir(at) {
            let ino = tree.lookup(&Caller::root(0), ino, name.as_bytes());
            prop_assert!(ino.is_ok(), "{} is missing", name);
            let ino = ino.unwrap();
            prop_assert_eq!(*seen.entry(*child).or_insert(ino), ino);
            let attr = tree.attr(ino).unwrap();
            match &model.files[*child] {
                File::Data(content) => {
                    let mut out = vec![1; content.len() + 3];
                    let n = tree.read(ino, 0, &mut out).unwrap();
                    prop_assert_eq!(&out[..n], &content[..]);
                    prop_assert_eq!(attr.nlink as usize, model.links(*child));
                }
                File::Symlink(target) => prop_assert_eq!(&*tree.readlink(ino).unwrap(), target.as_bytes()),
                File::Dir(_) => prop_assert_eq!(tree.parent(ino).unwrap(), seen.get(&at).copied().unwrap_or(ROOT)),
            }
        }
        reached += model.dir(at).len();
    }
    let distinct: std::collections::BTreeSet<_> = seen.values().collect();
    prop_assert_eq!(distinct.len(), seen.len());
    prop_assert!(reached >= seen.len());
    // The incremental counters equal a count from scratch, and nothing is left behind.
    let mut counted = tree.freeze();
    counted.recount();
    prop_assert_eq!((counted.used, counted.count), (tree.used, tree.count));
    prop_assert_eq!(tree.count as usize, seen.len() + 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn tree_answers_as_a_naive_model_does(steps in prop::collection::vec(step(), 1..60)) {
        let mut tree = Tree::new(5, 1 << 30, 0);
        let mut model = Model { files: vec![File::Dir(BTreeMap::new())] };
        let mut frozen = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let root = Caller::root(number as i64);
            let known = dirs(&tree, &model);
            let dir = |d: u8| known[d as usize % known.len()];
            let name = |n: u8| NAMES[n as usize];
            let release = |tree: &mut Tree, lost: Result<Option<Ino>, Errno>| {
                lost.map(|lost| lost.into_iter().for_each(|ino| tree.release(ino)))
            };
            let (found, expected): (Answer, Answer) = match step {
                Step::Create(d, n) => (
                    tree.create(&root, dir(d).0, name(n).as_bytes(), &New::file(0o644)).map(drop),
                    model.create(dir(d).1, name(n), File::Data(Vec::new())),
                ),
                Step::Mkdir(d, n) => (
                    tree.create(&root, dir(d).0, name(n).as_bytes(), &New::dir(0o755)).map(drop),
                    model.create(dir(d).1, name(n), File::Dir(BTreeMap::new())),
                ),
                Step::Symlink(d, n) => (
                    tree.create(&root, dir(d).0, name(n).as_bytes(), &New::symlink(b"to")).map(drop),
                    model.create(dir(d).1, name(n), File::Symlink("to".to_owned())),
                ),
                Step::Link(a, b, c, e) => {
                    let Some(at) = model.dir(dir(a).1).get(name(b)).copied() else { continue };
                    let ino = tree.lookup(&root, dir(a).0, name(b).as_bytes()).unwrap();
                    let expected = match () {
                        () if model.is_dir(at) => Err(Errno::PERM),
                        () if model.dir(dir(c).1).contains_key(name(e)) => Err(Errno::EXIST),
                        () => {
                            model.dir_mut(dir(c).1).insert(name(e).to_owned(), at);
                            Ok(())
                        }
                    };
                    (tree.link(&root, ino, dir(c).0, name(e).as_bytes()), expected)
                }
                Step::Unlink(d, n) => {
                    let lost = tree.unlink(&root, dir(d).0, name(n).as_bytes(), false);
                    (release(&mut tree, lost), model.remove(dir(d).1, name(n), false))
                }
                Step::Rmdir(d, n) => {
                    let lost = tree.unlink(&root, dir(d).0, name(n).as_bytes(), true);
                    (release(&mut tree, lost), model.remove(dir(d).1, name(n), true))
                }
                Step::Rename(a, b, c, e, f) => {
                    let flags = RenameFlags { no_replace: f == 1, exchange: f == 2 };
                    let lost = tree.rename(&root, (dir(a).0, name(b).as_bytes()), (dir(c).0, name(e).as_bytes()), flags);
                    (release(&mut tree, lost), model.rename((dir(a).1, name(b)), (dir(c).1, name(e)), flags))
                }
                Step::Write(d, n, at, len) => {
                    let Some(number) = model.dir(dir(d).1).get(name(n)).copied() else { continue };
                    let ino = tree.lookup(&root, dir(d).0, name(n).as_bytes()).unwrap();
                    let bytes = vec![len as u8 | 1; len.into()];
                    let expected = match &mut model.files[number] {
                        File::Data(content) => {
                            let (at, end) = (usize::from(at), usize::from(at) + bytes.len());
                            content.resize(content.len().max(end), 0);
                            content[at..end].copy_from_slice(&bytes);
                            Ok(())
                        }
                        File::Dir(_) => Err(Errno::ISDIR),
                        File::Symlink(_) => Err(Errno::INVAL),
                    };
                    (tree.write(&root, ino, at.into(), &bytes), expected)
                }
                Step::Truncate(d, n, len) => {
                    let Some(number) = model.dir(dir(d).1).get(name(n)).copied() else { continue };
                    let ino = tree.lookup(&root, dir(d).0, name(n).as_bytes()).unwrap();
                    let expected = match &mut model.files[number] {
                        File::Data(content) => {
                            content.resize(len.into(), 0);
                            Ok(())
                        }
                        File::Dir(_) => Err(Errno::ISDIR),
                        File::Symlink(_) => Err(Errno::INVAL),
                    };
                    (tree.truncate(&root, ino, len.into()), expected)
                }
                Step::Freeze => {
                    frozen.push((tree.freeze(), model.clone()));
                    continue;
                }
            };
            prop_assert_eq!(found, expected);
        }
        compare(&tree, &model)?;
        for (tree, model) in &frozen {
            compare(tree, model)?;
        }
    }
}

fn small() -> (Tree, Caller) {
    (Tree::new(5, 1 << 20, 0), Caller::root(1))
}

#[test]
fn full_quota_refuses_a_write_before_it_changes_anything() {
    let (mut tree, root) = small();
    let ino = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    tree.write(&root, ino, 0, &[7; 100]).unwrap();
    assert_eq!(tree.write(&root, ino, 50, &vec![8; 2 << 20]), Err(Errno::NOSPC));
    let mut out = [0; 200];
    assert_eq!(tree.read(ino, 0, &mut out), Ok(100));
    assert_eq!(out[..100], [7; 100]);
    assert_eq!(tree.attr(ino).unwrap().size, 100);
    let mut created = 0;
    let refused = loop {
        match tree.create(&root, ROOT, format!("n{created}").as_bytes(), &New::file(0o644)) {
            Ok(_) => created += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Errno::NOSPC);
    assert!(tree.used <= tree.limit);
    assert!(tree.write(&root, ino, 0, &[9; 100]).is_ok(), "overwriting takes no memory");
    assert!(tree.unlink(&root, ROOT, b"n0", false).is_ok(), "a full file system can be emptied");
}

#[test]
fn offsets_beyond_the_longest_file_are_refused() {
    let (mut tree, root) = small();
    let ino = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    assert_eq!(tree.write(&root, ino, u64::MAX - 3, b"12345678"), Err(Errno::FBIG));
    assert_eq!(tree.truncate(&root, ino, u64::MAX), Err(Errno::FBIG));
    assert_eq!(tree.punch(&root, ino, u64::MAX, 9, false), Err(Errno::FBIG));
    assert_eq!(tree.allocate(&root, ino, 1 << 60, 1 << 60, false), Err(Errno::FBIG));
}

#[test]
fn removed_file_lives_until_it_is_released() {
    let (mut tree, root) = small();
    let ino = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    let lost = tree.unlink(&root, ROOT, b"f", false).unwrap();
    assert_eq!(lost, Some(ino));
    tree.write(&root, ino, 0, b"still here").unwrap();
    assert_eq!(tree.link(&root, ino, ROOT, b"g"), Err(Errno::NOENT));
    assert_eq!(tree.orphans(), [ino]);
    tree.release(ino);
    assert_eq!(tree.attr(ino), Err(Errno::NOENT));
    let other = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    assert_ne!(other, ino, "inode numbers are not used twice");
}

#[test]
fn removed_directory_takes_no_new_names() {
    let (mut tree, root) = small();
    let dir = tree.create(&root, ROOT, b"d", &New::dir(0o755)).unwrap();
    let file = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    tree.unlink(&root, ROOT, b"d", true).unwrap();
    assert_eq!(tree.create(&root, dir, b"x", &New::file(0o644)), Err(Errno::NOENT));
    assert_eq!(tree.rename(&root, (ROOT, b"f"), (dir, b"x"), RenameFlags::default()), Err(Errno::NOENT));
    assert_eq!(tree.link(&root, file, dir, b"x"), Err(Errno::NOENT));
}

#[test]
fn permission_bits_apply_by_class_and_sticky_directories_protect_names() {
    let (mut tree, root) = small();
    let dir = tree.create(&root, ROOT, b"d", &New::dir(0o1777)).unwrap();
    let [ann, bob] = [Caller::user(1000, 100, vec![], 2), Caller::user(1001, 100, vec![5], 3)];
    let file = tree.create(&ann, dir, b"f", &New::file(0o640)).unwrap();
    assert_eq!(tree.access(&ann, file, READ | WRITE), Ok(()));
    assert_eq!(tree.access(&bob, file, READ), Ok(()), "the group may read");
    assert_eq!(tree.access(&bob, file, WRITE), Err(Errno::ACCESS));
    assert_eq!(tree.access(&Caller::user(0, 0, vec![], 0), file, READ | WRITE), Ok(()));
    assert_eq!(tree.access(&Caller::user(0, 0, vec![], 0), file, EXECUTE), Err(Errno::ACCESS));
    assert_eq!(tree.unlink(&bob, dir, b"f", false), Err(Errno::PERM));
    assert_eq!(tree.rename(&bob, (dir, b"f"), (dir, b"g"), RenameFlags::default()), Err(Errno::PERM));
    let chown = |gid| SetAttr { gid: Some(gid), ..SetAttr::default() };
    assert_eq!(tree.setattr(&bob, file, &chown(5), false), Err(Errno::PERM));
    assert_eq!(tree.setattr(&ann, file, &chown(5), false), Err(Errno::PERM), "ann is not in group 5");
    assert!(tree.setattr(&ann, file, &SetAttr { mode: Some(0o6755), ..SetAttr::default() }, false).is_ok());
    tree.write(&ann, file, 0, b"x").unwrap();
    assert_eq!(tree.attr(file).unwrap().mode & 0o7777, 0o755, "writing clears the set-id bits");
    assert!(tree.unlink(&ann, dir, b"f", false).is_ok());
}

#[test]
fn xattrs_obey_their_flags_and_name_spaces() {
    let (mut tree, root) = small();
    let file = tree.create(&root, ROOT, b"f", &New::file(0o644)).unwrap();
    let link = tree.create(&root, ROOT, b"l", &New::symlink(b"f")).unwrap();
    let (create, replace) = (XattrFlags { create: true, replace: false }, XattrFlags { create: false, replace: true });
    assert_eq!(tree.set_xattr(&root, file, b"user.a", b"1", replace), Err(Errno::NODATA));
    assert_eq!(tree.set_xattr(&root, file, b"user.a", b"1", create), Ok(()));
    assert_eq!(tree.set_xattr(&root, file, b"user.a", b"2", create), Err(Errno::EXIST));
    assert_eq!(tree.xattr(&root, file, b"user.a"), Ok(&b"1"[..]));
    assert_eq!(tree.set_xattr(&root, link, b"user.a", b"1", create), Err(Errno::PERM));
    assert_eq!(tree.set_xattr(&root, file, b"system.posix_acl_access", b"1", create), Err(Errno::OPNOTSUPP));
    assert_eq!(tree.xattr_names(file), Ok(b"user.a\0".to_vec()));
    assert_eq!(tree.remove_xattr(&root, file, b"user.a"), Ok(()));
    assert_eq!(tree.remove_xattr(&root, file, b"user.a"), Err(Errno::NODATA));
}
