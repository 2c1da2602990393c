// SPDX-License-Identifier: GPL-2.0-only
//! Programs of the object that user space calls before it attaches the scheduler (contract L3).

use crate::encode::encode;
use crate::{Constant, Profile, ProfileError, Setting, Steps, near};
use bpf_object::btf::{Kind, Type};
use bpf_object::{LinkedObject, ProgramKind};
use machine_model::Machine;

/// Maximum size of a context in bytes; the largest one in the scx repository has 336.
const MAX_CONTEXT: u64 = 1024;

/// A call as declared in the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallSetting {
    pub program: String,
    /// Members of the context by name.
    pub context: Vec<(String, Setting)>,
    /// Called after the scheduler is attached, not before.
    pub attached: bool,
    pub place: String,
}

/// A call of a `syscall` program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCall {
    /// Name of its function in the object.
    pub program: String,
    /// Content of its argument; empty for a program without one.
    pub context: Vec<u8>,
    /// Place in the profile, for errors.
    pub place: String,
}

impl ProgramCall {
    /// The error for a call that did not return 0.
    pub fn failed(&self, returned: i64) -> ProfileError {
        ProfileError::new(&self.place, format!("program `{}` returned {returned}; expected 0", self.program))
    }
}

impl Profile {
    /// Steps that user space performs with `object` on `machine` after loading, in order.
    ///
    /// An array in place of a member that is a number declares several calls, one per element; several such arrays
    /// must have the same length. The same holds for keys and values of map elements.
    pub fn steps(&self, object: &LinkedObject, machine: &Machine) -> Result<Steps, ProfileError> {
        let mut steps = Steps::default();
        for element in &self.elements {
            element.expand(object, machine, &mut steps.elements)?;
        }
        for call in &self.calls {
            call.expand(object, machine, if call.attached { &mut steps.calls_attached } else { &mut steps.calls })?;
        }
        steps.planned = self.planned_steps(object, machine)?;
        Ok(steps)
    }
}

impl CallSetting {
    pub(crate) fn expand(
        &self,
        object: &LinkedObject,
        machine: &Machine,
        calls: &mut Vec<ProgramCall>,
    ) -> Result<(), ProfileError> {
        let structure = context_type(object, &self.program, &self.place)?;
        let size = structure.map_or(Some(0), |id| object.btf.size_of(id)).filter(|size| *size <= MAX_CONTEXT);
        let size = size.ok_or_else(|| {
            ProfileError::new(
                &self.place,
                format!("the context of `{}` is larger than {MAX_CONTEXT} bytes", self.program),
            )
        })?;
        let mut contexts = vec![vec![0; size as usize]];
        let mut spread = false;
        for (name, setting) in &self.context {
            let fail = |problem: String| ProfileError::new(&setting.place, format!("`{name}`: {problem}"));
            let known = structure.map(|id| object.btf.members(id)).unwrap_or_default();
            let member = structure.and_then(|id| object.btf.member(id, name)).ok_or_else(|| {
                let what = format!("member of the context of `{}`", self.program);
                let names = known.iter().map(|member| member.name.as_str());
                ProfileError::new(&setting.place, near::unknown(&what, name, names))
            })?;
            let (at, type_id) = (member.byte_offset() as usize, member.member.type_id);
            let constant = setting.value.on(machine).map_err(fail)?;
            let is_array = matches!(object.btf.resolved(type_id), Type::Array { .. });
            let values = match constant {
                Constant::Array(values) if !is_array => {
                    if !spread {
                        contexts = vec![contexts[0].clone(); values.len()];
                        spread = true;
                    }
                    if contexts.len() != values.len() {
                        let (other, own) = (contexts.len(), values.len());
                        return Err(fail(format!("{own} values, but another member has {other}")));
                    }
                    values
                }
                one => vec![one; contexts.len()],
            };
            for (context, value) in contexts.iter_mut().zip(&values) {
                let size = object.btf.size_of(type_id).unwrap_or(0) as usize;
                let place = context.get_mut(at..at.saturating_add(size)).unwrap_or_default();
                encode(&object.btf, type_id, value, place).map_err(fail)?;
            }
        }
        let call = |context| ProgramCall { program: self.program.clone(), context, place: self.place.clone() };
        calls.extend(contexts.into_iter().map(call));
        Ok(())
    }
}

/// Struct that the program's argument points to; `None` if BTF describes none.
pub(crate) fn context_type(object: &LinkedObject, program: &str, place: &str) -> Result<Option<u32>, ProfileError> {
    let name_of = |function: u32| object.functions[function as usize].name.as_str();
    let syscalls = object.programs.iter().filter(|one| one.kind == ProgramKind::Syscall);
    let names = syscalls.map(|one| name_of(one.function.0));
    if !names.clone().any(|name| name == program) {
        let what = "program of the object in section `syscall`";
        return Err(ProfileError::new(place, near::unknown(what, program, names)));
    }
    let btf = &object.btf;
    let Some(Type::Func { proto, .. }) = btf.find(program, Kind::Func).map(|id| btf.type_of(id)) else {
        return Ok(None);
    };
    let argument = btf.parameters(*proto).and_then(|parameters| parameters.first());
    let Some(Type::Ptr { target }) = argument.map(|argument| btf.resolved(argument.type_id)) else {
        return Ok(None);
    };
    let target = btf.resolve(*target);
    Ok(matches!(btf.type_of(target), Type::Struct { .. }).then_some(target))
}
