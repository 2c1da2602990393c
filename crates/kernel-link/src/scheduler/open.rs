// SPDX-License-Identifier: GPL-2.0-only
//! Opens an object with libbpf, and finds the kernel configuration where libbpf does not look.

use super::SchedulerError;
use crate::LinkError;
use bpf_object::ConfigExtern;
use host::proc::{read, release};
use libbpf_rs::libbpf_sys::{bpf_object__open_mem, bpf_object_open_opts};
use libbpf_rs::{AsRawLibbpf, ObjectBuilder, OpenObject};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::Path;
use std::ptr::NonNull;

/// Opens the object under a name; `config` is text in the format of a kernel configuration file.
#[allow(unsafe_code)]
pub(super) fn open(bytes: &[u8], name: &str, config: Option<&str>) -> libbpf_rs::Result<OpenObject> {
    let mut builder = ObjectBuilder::default();
    builder.name(name)?;
    let Some(config) = config else { return builder.open_memory(bytes) };
    let config = CString::new(config).expect("lines without a zero byte");
    // SAFETY: the builder initialized its options and lives until libbpf has copied them.
    let options = unsafe { *builder.as_libbpf_object().as_ptr() };
    let options = bpf_object_open_opts { kconfig: config.as_ptr(), ..options };
    // SAFETY: the bytes and both strings are valid during the call, and libbpf copies what it keeps.
    let object = unsafe { bpf_object__open_mem(bytes.as_ptr().cast(), bytes.len() as _, &options) };
    match NonNull::new(object) {
        // SAFETY: libbpf has just opened it, and it has no other owner.
        Some(object) => Ok(unsafe { OpenObject::from_ptr(object) }),
        None => Err(std::io::Error::last_os_error().into()),
    }
}

/// Lines of the kernel configuration to pass to libbpf for these externs; `None` if the object needs none, or libbpf
/// finds the configuration itself.
pub(super) fn config(name: &str, wanted: &[ConfigExtern]) -> Result<Option<String>, LinkError> {
    let release = release()?;
    let found_by_libbpf = [format!("/boot/config-{release}"), "/proc/config.gz".to_owned()];
    if wanted.is_empty() || found_by_libbpf.iter().any(|path| Path::new(path).exists()) {
        return Ok(None);
    }
    // Locations of Debian and Fedora.
    let folders = ["/usr/lib/modules", "/lib/modules"];
    let paths = folders.map(|folder| format!("{folder}/{release}/config"));
    // If none exists, let libbpf report the paths it tried.
    let Some(path) = paths.iter().find(|path| Path::new(path).exists()) else { return Ok(None) };
    let lines = lines(&read(path)?, wanted);
    lines.map(Some).map_err(|missing| {
        let problem = format!("it needs {missing}, which is not set in {path}");
        SchedulerError::Unsuitable { name: name.to_owned(), problem }.into()
    })
}

/// Values of these externs, with the unset weak ones marked as not set; otherwise libbpf would search for its own
/// file. The error is the name of a required one that is not set.
fn lines<'a>(config: &str, wanted: &'a [ConfigExtern]) -> Result<String, &'a str> {
    let names: BTreeSet<&str> = wanted.iter().map(|one| one.name.as_str()).collect();
    let set: Vec<(&str, &str)> =
        config.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| names.contains(name)).collect();
    let mut text = String::new();
    for one in wanted {
        let value = match set.iter().find(|(name, _)| *name == one.name) {
            Some((_, value)) => value,
            None if one.weak => one.unset,
            None => return Err(&one.name),
        };
        text.push_str(&format!("{}={value}\n", one.name));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, weak: bool, unset: &'static str) -> ConfigExtern {
        ConfigExtern { name: name.to_owned(), weak, unset }
    }

    #[test]
    fn config_lines_pass_values_and_mark_weak_externs_unset() {
        let config = "# CONFIG_B is not set\nCONFIG_HZ=250\nCONFIG_HZ_250=y\nCONFIG_NAME=\"a=b\"\n";
        let wanted = [
            value("CONFIG_HZ", false, "0"),
            value("CONFIG_NAME", false, "\"\""),
            value("CONFIG_B", true, "n"),
            value("CONFIG_C", true, "0"),
        ];
        let expected = "CONFIG_HZ=250\nCONFIG_NAME=\"a=b\"\nCONFIG_B=n\nCONFIG_C=0\n";
        assert_eq!(lines(config, &wanted).as_deref(), Ok(expected));
        assert_eq!(lines(config, &[value("CONFIG_B", false, "n")]), Err("CONFIG_B"));
    }
}
