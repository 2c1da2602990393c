// SPDX-License-Identifier: GPL-2.0-only
//! Calls of the object's programs at given times of the run, as requested by the user; they stand for commands of a
//! scheduler's user space. `assign:group=db,cpus=3@1s` calls the program `assign` one second after the start of the
//! run; its context is that of a `[[call]]` of the profile, with values as strings.

use crate::calls::{CallSetting, context_type};
use crate::{Constant, PlannedStep, Profile, ProfileError, Setting, near, read_any};
use bpf_object::LinkedObject;
use bpf_object::btf::{Btf, Type};
use ids::Nanos;
use machine_model::Machine;
use std::fmt;
use std::str::FromStr;

/// A call at a given time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCall {
    /// Time since the start of the run.
    pub at: Nanos,
    program: String,
    /// Members of the context, with their values as written.
    arguments: Vec<(String, String)>,
}

/// Error text for a malformed planned call.
const EXPECTED: &str = "expected PROGRAM:MEMBER=VALUE,...@TIME or PROGRAM@TIME, such as assign:group=db,cpus=3@1s";

impl FromStr for PlannedCall {
    type Err = String;

    fn from_str(text: &str) -> Result<PlannedCall, String> {
        let wrong = || format!("{text:?}: {EXPECTED}");
        let (what, when) = text.rsplit_once('@').ok_or_else(wrong)?;
        let at = when.parse().map_err(|_| wrong())?;
        let (program, arguments) = match what.split_once(':') {
            Some((program, arguments)) => (program, arguments.split(',').collect()),
            None => (what, Vec::new()),
        };
        let argument = |argument: &str| {
            let (name, value) = argument.split_once('=').filter(|(name, _)| !name.is_empty())?;
            Some((name.to_owned(), value.to_owned()))
        };
        let arguments: Option<Vec<_>> = arguments.into_iter().map(argument).collect();
        let arguments = arguments.filter(|_| !program.is_empty()).ok_or_else(wrong)?;
        for (index, (name, _)) in arguments.iter().enumerate() {
            if arguments[..index].iter().any(|(before, _)| before == name) {
                return Err(format!("{text:?}: duplicate member `{name}`"));
            }
        }
        Ok(PlannedCall { at, program: program.to_owned(), arguments })
    }
}

impl fmt::Display for PlannedCall {
    /// The form that parses to the same call.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for (index, (name, value)) in self.arguments.iter().enumerate() {
            write!(f, "{}{name}={value}", if index > 0 { ',' } else { ':' })?;
        }
        write!(f, "@{}", self.at.exact())
    }
}

impl Profile {
    /// Adds calls to be made while the scheduler runs, ordered by time.
    pub fn plan(&mut self, calls: &[PlannedCall]) {
        self.planned.extend_from_slice(calls);
        self.planned.sort_by_key(|call| call.at);
    }

    /// The planned calls, with contexts encoded for `object`.
    pub(crate) fn planned_steps(
        &self,
        object: &LinkedObject,
        machine: &Machine,
    ) -> Result<Vec<PlannedStep>, ProfileError> {
        let step = |planned: &PlannedCall| {
            let mut calls = Vec::new();
            planned.setting(object)?.expand(object, machine, &mut calls)?;
            let call = calls.pop().expect("values of the command line are never spread");
            Ok(PlannedStep { at: planned.at, name: planned.to_string(), call })
        };
        self.planned.iter().map(step).collect()
    }
}

impl PlannedCall {
    /// Converts to a call of the profile; the member's type decides how its value is parsed.
    fn setting(&self, object: &LinkedObject) -> Result<CallSetting, ProfileError> {
        let place = format!("--call {self}");
        let structure = context_type(object, &self.program, &place)?;
        let mut context = Vec::new();
        for (name, text) in &self.arguments {
            let fail = |problem: String| ProfileError::new(&place, problem);
            let known = structure.map(|id| object.btf.members(id)).unwrap_or_default();
            let member = structure.and_then(|id| object.btf.member(id, name)).ok_or_else(|| {
                let what = format!("member of the context of `{}`", self.program);
                fail(near::unknown(&what, name, known.iter().map(|member| member.name.as_str())))
            })?;
            let value = if is_text(&object.btf, member.member.type_id) {
                Constant::Text(text.clone())
            } else {
                read_any(text).map_err(|problem| fail(format!("`{name}`: {problem}")))?
            };
            context.push((name.clone(), Setting { value, place: place.clone() }));
        }
        Ok(CallSetting { program: self.program.clone(), context, attached: true, place })
    }
}

/// Whether the type is an array of characters.
fn is_text(btf: &Btf, type_id: u32) -> bool {
    matches!(btf.resolved(type_id), Type::Array { element, .. } if btf.size_of(*element) == Some(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_call_parses_and_displays() {
        for text in ["assign:group=db,cpus=3@1s", "switch@0s", "a:b=@1500ms", "a:b=x@y=z,c=-1@2ms"] {
            let call: PlannedCall = text.parse().unwrap();
            assert_eq!(call.to_string(), text);
        }
        let call: PlannedCall = "a:b=x@y@1.5s".parse().unwrap();
        assert_eq!((call.at, call.to_string().as_str()), (Nanos::from_ms(1_500), "a:b=x@y@1500ms"));
    }

    #[test]
    fn invalid_planned_calls_are_refused() {
        for text in ["", "@1s", "a", "a@", "a@1", "a:@1s", "a:b@1s", "a:=1@1s", ":b=1@1s", "a:b=1,@1s"] {
            assert_eq!(text.parse::<PlannedCall>(), Err(format!("{text:?}: {EXPECTED}")));
        }
        let twice = "a:b=1,b=2@1s".parse::<PlannedCall>();
        assert_eq!(twice, Err("\"a:b=1,b=2@1s\": duplicate member `b`".to_owned()));
    }
}
