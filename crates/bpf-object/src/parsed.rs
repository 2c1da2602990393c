// SPDX-License-Identifier: GPL-2.0-only
//! Parses bytes into an [`Object`] and links it into a [`LinkedObject`].

use crate::btf::ext::BtfExt;
use crate::btf::{Btf, parse_with_strings};
use crate::core_reloc::CoreRelocation;
use crate::elf::Elf;
use crate::externs::{ConfigExtern, Externs, Resolution};
use crate::functions::Code;
use crate::maps::MapTable;
use crate::relocate::{ExternUse, Parts};
use crate::sections::DataSections;
use crate::{Function, LinkedObject, MapDef, ObjectError, Program, StructOps, Symbol, Target, Variable};
use crate::{core_reloc, struct_ops};
use std::collections::BTreeMap;

/// A parsed object that is not linked.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) license: String,
    pub(crate) btf: Btf,
    /// Functions, with references inside the object resolved.
    pub(crate) functions: Vec<Function>,
    pub(crate) programs: Vec<Program>,
    pub(crate) maps: Vec<MapDef>,
    pub(crate) variables: BTreeMap<String, Variable>,
    pub(crate) struct_ops: Vec<StructOps>,
    pub(crate) externs: Externs,
    pub(crate) uses: Vec<ExternUse>,
    pub(crate) core: Vec<CoreRelocation>,
}

impl Object {
    /// Parses an ELF file. Never panics, whatever the bytes are.
    pub fn parse(bytes: &[u8]) -> Result<Object, ObjectError> {
        let elf = Elf::parse(bytes)?;
        let section = |name: &str| elf.section(name).map(|(_, section)| section.data);
        let missing = || ObjectError::Elf("it has no .BTF section; compile with -g".to_string());
        let (btf, strings) = parse_with_strings(section(".BTF").ok_or_else(missing)?)?;
        let ext = section(".BTF.ext").map(|data| BtfExt::parse(data, &strings)).transpose()?.unwrap_or_default();
        let mut code = Code::parse(&elf, &btf, &ext)?;
        let core = core_reloc::collect(&elf, &code, &ext)?;
        let mut maps = Vec::new();
        let table = MapTable::parse(&elf, &btf, &mut maps)?;
        let data = DataSections::parse(&elf, &btf, &mut maps)?;
        let externs = Externs::parse(&elf, &btf, &mut maps)?;
        let uses = Parts { elf: &elf, maps: &table, data: &data, externs: &externs }.resolve(&mut code)?;
        let struct_ops = struct_ops::parse(&elf, &btf, &code)?;
        Ok(Object {
            license: c_string(section("license").unwrap_or_default()),
            functions: code.functions,
            programs: code.programs,
            variables: data.variables,
            btf,
            maps,
            struct_ops,
            externs,
            uses,
            core,
        })
    }

    /// Programs with the names of their functions.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.programs.iter().map(|program| (self.functions[program.function.0 as usize].name.as_str(), program))
    }

    /// The kconfig values that the object uses.
    pub fn config(&self) -> Vec<ConfigExtern> {
        self.externs.config()
    }

    /// Resolves all references against a kernel.
    pub fn link(&self, target: &dyn Target) -> Result<LinkedObject, ObjectError> {
        let mut functions = self.functions.clone();
        let mut maps = self.maps.clone();
        let resolution = self.externs.resolve(&self.btf, target, &mut maps)?;
        for extern_use in &self.uses {
            if let Some(symbol) = self.symbol(extern_use, &resolution) {
                functions[extern_use.function.0 as usize].symbols.insert(extern_use.slot, symbol);
            }
        }
        let members = core_reloc::apply_all(&self.core, &self.btf, target.btf(), &mut functions)?;
        Ok(LinkedObject {
            license: self.license.clone(),
            functions,
            programs: self.programs.clone(),
            maps,
            kfuncs: resolution.kfuncs,
            members,
            struct_ops: self.struct_ops.clone(),
            variables: self.variables.clone(),
            btf: self.btf.clone(),
        })
    }

    /// Symbol of an instruction that uses an extern; `None` for an absent variable, whose address is 0.
    fn symbol(&self, extern_use: &ExternUse, resolution: &Resolution) -> Option<Symbol> {
        use crate::externs::ExternKind;
        let index = extern_use.target;
        match &self.externs.all[index].kind {
            ExternKind::Kfunc { .. } => {
                let kfunc = resolution.kfunc_of[&index];
                Some(if extern_use.call { Symbol::Kfunc(kfunc) } else { Symbol::KfuncAddress(kfunc) })
            }
            ExternKind::Variable => {
                let name = core_reloc::essential_name(&self.externs.all[index].name);
                resolution.variables[&index].then(|| Symbol::KernelVariable(name.to_string()))
            }
            ExternKind::Config(value) => {
                let map = self.externs.kconfig.expect("a map of configuration values");
                Some(Symbol::MapValue { map, offset: value.offset })
            }
        }
    }
}

/// Text up to the first zero byte.
fn c_string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
