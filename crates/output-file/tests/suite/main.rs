// SPDX-License-Identifier: GPL-2.0-only
//! Output files beside links, pipes, devices, and on a full disk.

use output_file::{FileId, OutputError, Privacy, Target};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn public(path: &Path) -> Result<Target, OutputError> {
    Target::check(path, Privacy::Public)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn target_has_its_old_content_until_the_file_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    fs::write(&path, "old").unwrap();
    let target = public(&path).unwrap();
    let mut out = target.create().unwrap();
    out.write_all(b"new content").unwrap();
    out.flush().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    drop(out);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let mut out = target.create().unwrap();
    out.write_all(b"new content").unwrap();
    assert_eq!(out.finish().unwrap(), 11);
    assert_eq!(fs::read(&path).unwrap(), b"new content");
    assert_eq!(names(directory.path()), ["out"]);
}

#[test]
fn check_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    public(&directory.path().join("out")).unwrap();
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn links_are_refused_when_checked_and_replaced_when_they_appear_later() {
    let directory = tempfile::tempdir().unwrap();
    let (precious, path) = (directory.path().join("precious"), directory.path().join("out"));
    fs::write(&precious, "precious").unwrap();
    let target = public(&path).unwrap();
    symlink(&precious, &path).unwrap();
    let error = public(&path).unwrap_err().to_string();
    assert!(
        error.contains("it is a symbolic link to ") && error.contains("precious; expected a regular file"),
        "{error}"
    );
    target.write(b"new").unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    let dangling = directory.path().join("dangling");
    symlink(directory.path().join("none"), &dangling).unwrap();
    public(&dangling).unwrap_err();
}

#[test]
fn places_that_cannot_be_written_are_noticed_by_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| public(path).unwrap_err().to_string();
    assert!(error(directory.path()).ends_with("it is a directory; expected a regular file, pipe or character device"));
    assert!(error(&directory.path().join("none/out")).ends_with("No such file or directory (os error 2)"));
    assert!(error(Path::new("/proc/out")).starts_with("cannot write /proc/out: "));
    assert!(error(Path::new("/dev/fd/77")).starts_with("cannot write /dev/fd/77: "));
}

#[test]
fn pipes_and_devices_are_written_directly_unless_only_files_make_sense() {
    let null = Path::new("/dev/null");
    public(null).unwrap().write(b"gone").unwrap();
    assert!(fs::symlink_metadata(null).unwrap().permissions().mode() & 0o170_000 == 0o020_000);
    let error = Target::check_file(null, Privacy::Public).unwrap_err().to_string();
    assert_eq!(error, "cannot write /dev/null: it is a device; expected a regular file");
    let full = public(Path::new("/dev/full")).unwrap().write(b"lost").unwrap_err().to_string();
    assert_eq!(full, "cannot write /dev/full: No space left on device (os error 28)");
}

#[test]
fn private_files_are_readable_by_their_owner_only_and_replaced_files_get_no_new_permissions() {
    let directory = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let private = directory.path().join("private");
    Target::check(&private, Privacy::Private).unwrap().write(b"secret").unwrap();
    assert_eq!(mode(&private), 0o600);
    fs::set_permissions(&private, PermissionsExt::from_mode(0o640)).unwrap();
    Target::check(&private, Privacy::Private).unwrap().write(b"secret").unwrap();
    assert_eq!(mode(&private), 0o600);
    let guarded = directory.path().join("guarded");
    fs::write(&guarded, "").unwrap();
    fs::set_permissions(&guarded, PermissionsExt::from_mode(0o600)).unwrap();
    public(&guarded).unwrap().write(b"x").unwrap();
    assert_eq!(mode(&guarded), 0o600);
}

#[test]
fn existing_file_is_identified_by_any_of_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    fs::write(&one, "").unwrap();
    fs::hard_link(&one, &other).unwrap();
    let id = FileId::of(&fs::metadata(&one).unwrap());
    assert_eq!(public(&other).unwrap().existing(), Some(id));
    assert_eq!(public(&directory.path().join("new")).unwrap().existing(), None);
}

#[test]
fn names_of_maximum_length_can_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("n".repeat(255));
    public(&path).unwrap().write(b"x").unwrap();
    assert_eq!(names(directory.path()), ["n".repeat(255)]);
}
