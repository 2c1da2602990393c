// SPDX-License-Identifier: GPL-2.0-only
//! JSON objects that track which keys were read, so that unknown keys can be refused.

use crate::json::{Kind, Member, Value};
use std::ops::RangeInclusive;

/// An error with its byte offset in the text.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: usize,
    pub problem: String,
}

/// The whole document.
pub(super) struct Document<'a> {
    members: &'a [Member],
}

impl<'a> Document<'a> {
    pub fn new(root: &'a Value) -> Result<Document<'a>, Fault> {
        match &root.kind {
            Kind::Object(members) => Ok(Document { members }),
            other => {
                Err(Fault { at: root.at, problem: format!("the file contains {}; expected an object", other.name()) })
            }
        }
    }

    pub fn root(&self) -> Object<'a> {
        Object { what: "the file".into(), at: 0, members: self.members, known: Vec::new() }
    }
}

/// An object and the keys read so far.
pub(super) struct Object<'a> {
    /// Name in error messages.
    pub what: String,
    pub at: usize,
    pub members: &'a [Member],
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    pub fn new(what: String, at: usize, value: &'a Value) -> Result<Object<'a>, Fault> {
        match &value.kind {
            Kind::Object(members) => Ok(Object { what, at, members, known: Vec::new() }),
            other => Err(Fault { at: value.at, problem: format!("{what} is {}; expected an object", other.name()) }),
        }
    }

    /// The member with this key, which must not occur twice.
    pub fn optional(&mut self, key: &'static str) -> Result<Option<&'a Member>, Fault> {
        self.known.push(key);
        let mut found = self.members.iter().filter(|member| member.key == key);
        let first = found.next();
        match found.next() {
            Some(second) => Err(Fault { at: second.at, problem: format!("{} has {key} twice", self.what) }),
            None => Ok(first),
        }
    }

    pub fn required(&mut self, key: &'static str) -> Result<&'a Member, Fault> {
        self.optional(key)?.ok_or_else(|| Fault { at: self.at, problem: format!("{} has no {key:?}", self.what) })
    }

    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<i64>) -> Result<Option<i64>, Fault> {
        self.optional(key)?.map(|member| integer(&member.key, &member.value, range)).transpose()
    }

    pub fn string(&mut self, key: &'static str) -> Result<Option<(usize, &'a str)>, Fault> {
        let member = self.optional(key)?;
        member.map(|member| Ok((member.value.at, string(&member.key, &member.value)?))).transpose()
    }

    pub fn boolean(&mut self, key: &'static str) -> Result<Option<(usize, bool)>, Fault> {
        let Some(member) = self.optional(key)? else { return Ok(None) };
        match member.value.kind {
            Kind::Bool(value) => Ok(Some((member.value.at, value))),
            _ => Err(wrong(key, &member.value, "true or false")),
        }
    }

    /// Refuses keys that were not read.
    pub fn finish(&self) -> Result<(), Fault> {
        self.finish_but(|_| false)
    }

    /// As `finish`, but accepts keys that are events.
    pub fn finish_but(&self, event: impl Fn(&str) -> bool) -> Result<(), Fault> {
        let unknown = |member: &&Member| !self.known.contains(&member.key.as_str()) && !event(&member.key);
        let Some(member) = self.members.iter().find(unknown) else { return Ok(()) };
        let near = near_miss(&member.key, self.known.iter().copied());
        let known = self.known.join(", ");
        let problem = format!("{} has an unknown key {:?}{near}; known are {known}", self.what, member.key);
        Err(Fault { at: member.at, problem })
    }
}

pub(super) fn wrong(key: &str, value: &Value, expected: &str) -> Fault {
    let found = match &value.kind {
        Kind::Integer(number) => number.to_string(),
        Kind::Bool(value) => value.to_string(),
        Kind::String(text) => format!("{text:?}"),
        other => other.name().to_owned(),
    };
    Fault { at: value.at, problem: format!("{key} is {found}; expected {expected}") }
}

pub(super) fn integer(key: &str, value: &Value, range: RangeInclusive<i64>) -> Result<i64, Fault> {
    match value.kind {
        Kind::Integer(number) if range.contains(&number) => Ok(number),
        _ => Err(wrong(key, value, &format!("an integer from {} to {}", range.start(), range.end()))),
    }
}

pub(super) fn string<'a>(key: &str, value: &'a Value) -> Result<&'a str, Fault> {
    match &value.kind {
        Kind::String(text) => Ok(text),
        _ => Err(wrong(key, value, "a string")),
    }
}

/// Returns ` (did you mean X?)` for the most similar candidate, if any is similar.
pub(super) fn near_miss<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let scored = candidates.map(|candidate| (strsim::normalized_damerau_levenshtein(word, candidate), candidate));
    let best = scored.filter(|&(score, _)| score > 0.5).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(String::new(), |(_, candidate)| format!(" (did you mean {candidate:?}?)"))
}
