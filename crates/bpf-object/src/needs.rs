// SPDX-License-Identifier: GPL-2.0-only
//! Inspection of an object that is not linked: its parts, and the names that it expects a kernel to define.

use crate::btf::Btf;
use crate::core_reloc::{self, essential_name};
use crate::externs::{ExternKind, has_kfunc};
use crate::{Function, MapDef, MemberUse, Object, ObjectError, StructOps, Symbol, Target, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// Kind of a name that the object expects of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeedKind {
    /// A kernel function, with its number of parameters.
    Kfunc(u32),
    /// A kernel variable.
    Variable,
    /// A kconfig value.
    Config,
}

/// A name that the object expects the kernel to define.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Name with the object's flavor (`___NAME`) stripped.
    pub name: String,
    /// Kind of the name.
    pub kind: NeedKind,
    /// Whether the object also works without it.
    pub weak: bool,
    /// Whether the kernel defines it.
    pub present: bool,
}

impl Object {
    /// Lists all names that the object expects the kernel to define, in the order of the file.
    pub fn needs(&self, target: &dyn Target) -> Vec<Need> {
        let need = |wanted: &crate::externs::Extern| {
            let name = essential_name(&wanted.name);
            let (kind, present) = match &wanted.kind {
                ExternKind::Kfunc { parameters, type_id } => {
                    (NeedKind::Kfunc(*parameters), has_kfunc(&self.btf, target, name, *parameters, *type_id))
                }
                ExternKind::Variable => (NeedKind::Variable, target.has_variable(name)),
                ExternKind::Config(value) => {
                    (NeedKind::Config, value.is_text() || target.kconfig(&wanted.name).is_some())
                }
            };
            Need { name: name.to_owned(), kind, weak: wanted.weak, present }
        };
        self.externs.all.iter().map(need).collect()
    }

    /// Text of the `license` section.
    pub fn license(&self) -> &str {
        &self.license
    }

    /// Maps and data sections.
    pub fn maps(&self) -> &[MapDef] {
        &self.maps
    }

    /// Global variables by name.
    pub fn variables(&self) -> &BTreeMap<String, Variable> {
        &self.variables
    }

    /// struct_ops variables.
    pub fn struct_ops(&self) -> &[StructOps] {
        &self.struct_ops
    }

    /// The object's own types.
    pub fn btf(&self) -> &Btf {
        &self.btf
    }

    /// Programs and subprograms.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Numbers of the helpers that the functions with these indices and their callees call, including calls in
    /// unreachable code.
    pub fn helpers(&self, entries: &[u32]) -> BTreeSet<u32> {
        const CALL: u8 = 0x85;
        let functions = self.callees(entries).into_iter().map(|function| &self.functions[function as usize]);
        let calls = functions.flat_map(|function| &function.insns).filter(|insn| insn.code == CALL && insn.src == 0);
        calls.map(|insn| insn.imm as u32).collect()
    }

    /// Members of kernel structs that the object uses by name, in the order of the file.
    ///
    /// # Errors
    /// If the object is malformed.
    pub fn members(&self, target: &dyn Target) -> Result<Vec<MemberUse>, ObjectError> {
        core_reloc::apply_all(&self.core, &self.btf, target.btf(), &mut self.functions.clone())
    }

    /// The functions with these indices and all functions that they name: callees and callbacks.
    pub fn callees(&self, entries: &[u32]) -> BTreeSet<u32> {
        let (mut seen, mut open) = (BTreeSet::new(), entries.to_vec());
        while let Some(function) = open.pop() {
            if !seen.insert(function) {
                continue;
            }
            let function = &self.functions[function as usize];
            open.extend(function.symbols.values().filter_map(|symbol| match symbol {
                Symbol::Function(callee) => Some(callee.0),
                _ => None,
            }));
        }
        seen
    }
}
