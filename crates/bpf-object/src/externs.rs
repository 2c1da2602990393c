// SPDX-License-Identifier: GPL-2.0-only
//! Externs: kfuncs, kernel variables and kconfig values that an object uses by name.

use crate::btf::{Btf, IntEncoding, Kind, Linkage, Type};
use crate::core_reloc::{essential_name, types_compatible};
use crate::elf::{Elf, Place};
use crate::sections::READ_ONLY_FLAG;
use crate::{KfuncRef, MapDef, MapId, MapKind, ObjectError, Target};
use std::collections::BTreeMap;

const KCONFIG: &str = ".kconfig";
const KSYMS: &str = ".ksyms";

/// A kconfig value with its offset in the kconfig map.
#[derive(Clone, Debug)]
pub(crate) struct ConfigValue {
    pub offset: u32,
    size: u32,
    form: ConfigForm,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConfigForm {
    Bool,
    /// An enum, whose values are those of libbpf's `enum libbpf_tristate`.
    Tristate,
    Unsigned,
    Signed,
    Text,
}

/// A kconfig value that an object uses, such as `CONFIG_HZ`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigExtern {
    /// Name, with the prefix `CONFIG_`.
    pub name: String,
    /// Whether the extern is weak: a kernel that does not set it is accepted.
    pub weak: bool,
    /// Value in a kernel configuration file that does not set it: `n`, `0` or `""`.
    pub unset: &'static str,
}

/// Kind of an extern.
#[derive(Clone, Debug)]
pub(crate) enum ExternKind {
    /// A kernel function, with its number of parameters and the BTF type of its prototype in the object.
    Kfunc { parameters: u32, type_id: u32 },
    /// A kernel variable.
    Variable,
    /// A kconfig value.
    Config(ConfigValue),
}

/// A name that the object uses and does not define.
#[derive(Clone, Debug)]
pub(crate) struct Extern {
    /// Name as the object spells it.
    pub name: String,
    pub weak: bool,
    pub kind: ExternKind,
}

/// All externs of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Externs {
    pub all: Vec<Extern>,
    /// Map that holds the kconfig values.
    pub kconfig: Option<MapId>,
    /// Index into `all` by index of the ELF symbol.
    by_symbol: BTreeMap<usize, usize>,
}

impl ConfigValue {
    /// Whether the value is a string. Strings are always present, and empty.
    pub fn is_text(&self) -> bool {
        self.form == ConfigForm::Text
    }
}

impl Externs {
    /// Reads all externs. If the object uses kconfig values, adds their map to `maps`.
    pub fn parse(elf: &Elf<'_>, btf: &Btf, maps: &mut Vec<MapDef>) -> Result<Externs, ObjectError> {
        let declared = declared(btf);
        let mut externs = Externs::default();
        let mut config_size = 0;
        for (index, symbol) in elf.symbols.iter().enumerate() {
            if symbol.place != Place::Undefined || symbol.name.is_empty() {
                continue;
            }
            let name = symbol.name.to_string();
            let kind = match declared.get(name.as_str()) {
                Some((KSYMS, id)) => ksym(btf, *id),
                Some((KCONFIG, id)) => ExternKind::Config(config_value(btf, &name, *id, &mut config_size)?),
                _ => {
                    let problem =
                        format!("{name} is neither defined nor, in the object's BTF, declared __ksym or __kconfig");
                    return Err(ObjectError::Unresolved(problem));
                }
            };
            externs.by_symbol.insert(index, externs.all.len());
            externs.all.push(Extern { name, weak: symbol.weak, kind });
        }
        if config_size > 0 {
            externs.kconfig = Some(MapId(maps.len() as u32));
            maps.push(config_map(btf, config_size));
        }
        Ok(externs)
    }

    /// The kconfig values among the externs.
    pub fn config(&self) -> Vec<ConfigExtern> {
        let config = |wanted: &Extern| {
            let ExternKind::Config(value) = &wanted.kind else { return None };
            let unset = match value.form {
                ConfigForm::Bool | ConfigForm::Tristate => "n",
                ConfigForm::Unsigned | ConfigForm::Signed => "0",
                ConfigForm::Text => "\"\"",
            };
            Some(ConfigExtern { name: wanted.name.clone(), weak: wanted.weak, unset })
        };
        self.all.iter().filter(|wanted| wanted.name.starts_with("CONFIG_")).filter_map(config).collect()
    }

    /// Index of the extern that an ELF symbol names.
    pub fn of_symbol(&self, symbol: usize) -> Option<usize> {
        self.by_symbol.get(&symbol).copied()
    }
}

/// Extern declarations by name, with their section and type. The type of a function is its [`Type::Func`].
fn declared(btf: &Btf) -> BTreeMap<&str, (&str, u32)> {
    let mut declared = BTreeMap::new();
    for (_, ty) in btf.types() {
        let Type::Datasec { name: section, variables, .. } = ty else { continue };
        for variable in variables {
            match btf.type_of(variable.type_id) {
                Type::Var { name, type_id, linkage: Linkage::Extern } => {
                    declared.insert(name.as_str(), (section.as_str(), *type_id));
                }
                Type::Func { name, linkage: Linkage::Extern, .. } => {
                    declared.insert(name.as_str(), (section.as_str(), variable.type_id));
                }
                _ => {}
            }
        }
    }
    declared
}

fn ksym(btf: &Btf, id: u32) -> ExternKind {
    match (btf.type_of(id), btf.parameters(id)) {
        (Type::Func { proto, .. }, Some(parameters)) => {
            ExternKind::Kfunc { parameters: parameters.len() as u32, type_id: *proto }
        }
        _ => ExternKind::Variable,
    }
}

/// Assigns a kconfig value its offset in the map, after those before it.
fn config_value(btf: &Btf, name: &str, id: u32, end: &mut u32) -> Result<ConfigValue, ObjectError> {
    let bad = |problem: &str| ObjectError::Unresolved(format!("kconfig {name}: {problem}"));
    let size = btf.size_of(id).filter(|size| (1..=4096).contains(size));
    let size = size.ok_or_else(|| bad("a type of 1 to 4096 bytes expected"))? as u32;
    let form = match btf.resolved(id) {
        Type::Array { .. } => ConfigForm::Text,
        other if size > 8 => return Err(bad(&format!("{:?} of {size} bytes, at most 8 expected", other.kind()))),
        Type::Int { encoding: IntEncoding { bool: true, .. }, .. } => ConfigForm::Bool,
        Type::Int { encoding: IntEncoding { signed: true, .. }, .. } => ConfigForm::Signed,
        Type::Int { .. } => ConfigForm::Unsigned,
        Type::Enum { .. } => ConfigForm::Tristate,
        other => return Err(bad(&format!("an integer, enum or array of char expected, {:?} found", other.kind()))),
    };
    let align = if form == ConfigForm::Text { 1 } else { size.next_power_of_two() };
    let offset = end.next_multiple_of(align);
    *end = offset + size;
    if *end > 1 << 24 {
        return Err(bad("the values together exceed 16 MiB"));
    }
    Ok(ConfigValue { offset, size, form })
}

fn config_map(btf: &Btf, size: u32) -> MapDef {
    MapDef {
        name: KCONFIG.to_string(),
        kind: MapKind::Array,
        key_size: 4,
        value_size: size,
        max_entries: 1,
        flags: READ_ONLY_FLAG,
        extra: 0,
        initial: Some(vec![0; size as usize]),
        read_only: true,
        value_type: btf.find(KCONFIG, Kind::Datasec).unwrap_or(0),
        inner: None,
        inner_maps: Vec::new(),
    }
}

/// Externs as one particular kernel resolves them.
#[derive(Debug, Default)]
pub(crate) struct Resolution {
    pub kfuncs: Vec<KfuncRef>,
    /// Index into `kfuncs` by extern.
    pub kfunc_of: BTreeMap<usize, u32>,
    /// Whether the kernel has the variable, by extern.
    pub variables: BTreeMap<usize, bool>,
}

impl Externs {
    /// Looks up all externs in `target` and writes the kconfig values to `maps`. Returns one error that names all
    /// strong externs that the kernel does not have.
    pub fn resolve(&self, btf: &Btf, target: &dyn Target, maps: &mut [MapDef]) -> Result<Resolution, ObjectError> {
        let mut resolution = Resolution::default();
        let mut missing = Vec::new();
        for (index, wanted) in self.all.iter().enumerate() {
            let name = essential_name(&wanted.name);
            let present = match &wanted.kind {
                ExternKind::Kfunc { parameters, type_id } => {
                    let present = has_kfunc(btf, target, name, *parameters, *type_id);
                    resolution.kfunc_of.insert(index, resolution.kfuncs.len() as u32);
                    resolution.kfuncs.push(KfuncRef {
                        name: name.to_string(),
                        spelled: wanted.name.clone(),
                        weak: wanted.weak,
                        present,
                        parameters: *parameters,
                    });
                    present
                }
                ExternKind::Variable => {
                    let present = target.has_variable(name);
                    resolution.variables.insert(index, present);
                    present
                }
                ExternKind::Config(value) => {
                    let map = self.kconfig.expect("a map of configuration values");
                    let bytes = maps[map.0 as usize].initial.as_mut().expect("contents of the configuration map");
                    fill_config(value, &wanted.name, target, bytes)?
                }
            };
            if !present && !wanted.weak {
                missing.push(match wanted.kind {
                    ExternKind::Kfunc { parameters, .. } => format!("kfunc {name} with {parameters} parameters"),
                    ExternKind::Variable => format!("variable {name}"),
                    ExternKind::Config(_) => format!("kconfig value {name}"),
                });
            }
        }
        if missing.is_empty() {
            Ok(resolution)
        } else {
            Err(ObjectError::Unresolved(format!("the kernel has no {}", missing.join(", no "))))
        }
    }
}

/// Whether the kernel has a kfunc with this name, number of parameters and prototype.
pub(crate) fn has_kfunc(btf: &Btf, target: &dyn Target, name: &str, parameters: u32, proto: u32) -> bool {
    let same_signature = match target.btf().find(name, Kind::Func).map(|id| target.btf().type_of(id)) {
        Some(Type::Func { proto: of, .. }) => types_compatible(btf, proto, target.btf(), *of),
        _ => true,
    };
    same_signature && target.has_kfunc(name, parameters)
}

/// Writes a kconfig value into the map. Strings (`CC_VERSION_TEXT`) stay empty, since the simulated kernel has none.
/// Returns false if the kernel does not set the value.
fn fill_config(value: &ConfigValue, name: &str, target: &dyn Target, bytes: &mut [u8]) -> Result<bool, ObjectError> {
    if value.form == ConfigForm::Text {
        return Ok(true);
    }
    let Some(number) = target.kconfig(name) else { return Ok(false) };
    let unused = 64 - value.size * 8;
    let fits = match value.form {
        ConfigForm::Bool => number <= 1,
        ConfigForm::Signed => (number << unused) as i64 >> unused == number as i64,
        ConfigForm::Tristate | ConfigForm::Unsigned | ConfigForm::Text => number << unused >> unused == number,
    };
    if !fits {
        let problem =
            format!("kconfig {name} is {number}, which the object's variable of {} bytes cannot hold", value.size);
        return Err(ObjectError::Unresolved(problem));
    }
    let (start, size) = (value.offset as usize, value.size as usize);
    bytes[start..start + size].copy_from_slice(&number.to_le_bytes()[..size]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::BtfBuilder;

    #[test]
    fn kconfig_externs_are_integers_of_up_to_8_bytes_or_strings() {
        let mut b = BtfBuilder::new();
        let flag = b.bool("_Bool");
        let number = b.int("int", 4, true);
        let text = b.array(flag, 64);
        let odd_bool = {
            let encoding = IntEncoding { bool: true, ..IntEncoding::default() };
            b.add(Type::Int { name: "odd".into(), size: 9, encoding, bit_offset: 0, bits: 72 })
        };
        let wide = b.int("__int128", 16, true);
        let pointer = b.pointer(number);
        let btf = b.build();
        let mut end = 0;
        let mut place = |id| config_value(&btf, "CONFIG_X", id, &mut end).map(|value| (value.offset, value.form));
        assert_eq!(place(flag), Ok((0, ConfigForm::Bool)));
        assert_eq!(place(number), Ok((4, ConfigForm::Signed)));
        assert_eq!(place(text), Ok((8, ConfigForm::Text)));
        for id in [odd_bool, wide, pointer, 0] {
            assert!(place(id).is_err(), "type {id}");
        }
    }
}
