// SPDX-License-Identifier: GPL-2.0-only
//! The source information in a scheduler's object.

use bpf_object::{LinkedObject, MemberValue};
use event_log::{CallbackSite, op_name};
use std::collections::BTreeMap;

/// A callback of the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Callback {
    /// Name of its function.
    pub function: String,
    /// File, without its directory, and line where the function begins, if the object contains them.
    pub place: Option<(String, u32)>,
}

/// Callbacks and source lines of a scheduler. Empty for a scheduler without an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    callbacks: BTreeMap<String, Callback>,
    texts: BTreeMap<(String, u32), String>,
}

impl Source {
    /// Reads the source information of an object.
    pub fn of(object: &LinkedObject) -> Source {
        let mut source = Source::default();
        let short = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        for line in object.functions.iter().flat_map(|function| &function.lines) {
            let text = line.text.trim();
            if !text.is_empty() {
                source.texts.entry((short(&line.file), line.line)).or_insert_with(|| text.to_owned());
            }
        }
        for member in object.scheduler().map_or(&[][..], |ops| &ops.members) {
            if let MemberValue::Function(id) = member.value {
                let function = &object.functions[id.0 as usize];
                let own = function.lines.iter().find(|line| !line.file.ends_with(".h"));
                let place = own.map(|line| (short(&line.file), line.line));
                let callback = Callback { function: function.name.clone(), place };
                source.callbacks.insert(member.name.clone(), callback);
            }
        }
        source
    }

    /// The callback of a site.
    pub fn callback(&self, site: CallbackSite) -> Option<&Callback> {
        self.callbacks.get(op_name(site.op)?)
    }

    /// The text of a line, if the object contains it.
    pub fn text(&self, file: &str, line: u32) -> Option<&str> {
        self.texts.get(&(file.to_owned(), line)).map(String::as_str)
    }
}
