// SPDX-License-Identifier: GPL-2.0-only
//! What an unlinked object holds, and what it expects of a kernel: for whoever looks into objects without running them.

use crate::btf::Btf;
use crate::core_reloc::essential_name;
use crate::externs::{ExternKind, has_kfunc};
use crate::{Function, MapDef, Object, StructOps, Symbol, Target, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeedKind {
    /// A function of the kernel that takes so many arguments.
    Kfunc(u32),
    /// A variable of the kernel.
    Variable,
    /// A value of its configuration.
    Config,
}

/// A name that the object expects of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Without the object's own `___flavour`.
    pub name: String,
    /// What it is.
    pub kind: NeedKind,
    /// The object can do without.
    pub weak: bool,
    /// The kernel has it.
    pub present: bool,
}

impl Object {
    /// Everything that the object expects of the kernel by name, in the order of the file.
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

    /// The `license` section.
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

    /// Numbers of the helpers that the code below these functions calls, dead code included.
    pub fn helpers(&self, entries: &[u32]) -> BTreeSet<u32> {
        const CALL: u8 = 0x85;
        let (mut seen, mut open) = (BTreeSet::new(), entries.to_vec());
        let mut helpers = BTreeSet::new();
        while let Some(function) = open.pop() {
            if !seen.insert(function) {
                continue;
            }
            let function = &self.functions[function as usize];
            helpers.extend(
                function.insns.iter().filter(|insn| insn.code == CALL && insn.src == 0).map(|insn| insn.imm as u32),
            );
            open.extend(function.symbols.values().filter_map(|symbol| match symbol {
                Symbol::Function(callee) => Some(callee.0),
                _ => None,
            }));
        }
        helpers
    }
}
