// SPDX-License-Identifier: GPL-2.0-only
//! What a linked object consists of: the interface to whoever executes or loads it.

use crate::ObjectError;
use crate::btf::Btf;
use std::collections::BTreeMap;

/// Code of `ld_imm64`, which takes two slots.
pub(crate) const LD_IMM64: u8 = 0x18;

/// One eBPF instruction slot, decoded from its 8 bytes. A 64-bit immediate load takes two slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Insn {
    /// Operation code.
    pub code: u8,
    /// Destination register, 0..=15 as encoded.
    pub dst: u8,
    /// Source register or a modifier.
    pub src: u8,
    /// Signed offset.
    pub off: i16,
    /// Immediate.
    pub imm: i32,
}

/// Index into [`LinkedObject::functions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionId(pub u32);

/// Index into [`LinkedObject::maps`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MapId(pub u32);

/// What the immediate of an instruction stands for, where it is not a plain number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// `ld_imm64`: the map itself.
    Map(MapId),
    /// `ld_imm64`: a byte of the (only) value of a data-section map.
    MapValue {
        /// Which map.
        map: MapId,
        /// Which byte; one past the last is possible.
        offset: u32,
    },
    /// `call`, or `ld_imm64` of a callback's address.
    Function(FunctionId),
    /// `call` of a kfunc: index into [`LinkedObject::kfuncs`].
    Kfunc(u32),
    /// `ld_imm64` of a kfunc's address, as an existence test: index into [`LinkedObject::kfuncs`]. 0 if absent.
    KfuncAddress(u32),
    /// `ld_imm64` of a kernel variable: its name. Absent weak ones are plain zeroes and have no symbol.
    KernelVariable(String),
    /// A CO-RE relocation that could not be resolved: reaching the instruction is a fault with this text.
    Poison(String),
}

/// Which source line an instruction came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineInfo {
    /// First instruction slot that the line covers, counted from the function's start.
    pub insn: u32,
    /// Source file as the compiler saw it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// The text of the line, if the object carries it.
    pub text: String,
}

/// A call that the compiler replaced by what it calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InlinedCall {
    /// First instruction slot of what was inlined, counted from the function's start.
    pub first: u32,
    /// The slot behind its last.
    pub end: u32,
    /// Source file of the call as the compiler saw it.
    pub file: String,
    /// Line of the call.
    pub line: u32,
}

/// A program or subprogram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Symbol name.
    pub name: String,
    /// Its code; relocated offsets and immediates are in place.
    pub insns: Vec<Insn>,
    /// Symbolic operands by instruction slot. But for poison, the immediates of these instructions are zero.
    pub symbols: BTreeMap<u32, Symbol>,
    /// Slots of loads whose offset came from CO-RE: reads of kernel objects, which cannot fault in the kernel.
    pub kernel_loads: Vec<u32>,
    /// Source lines in ascending order of `insn`.
    pub lines: Vec<LineInfo>,
    /// Where functions were inlined, if the object tells: outer calls before those in them.
    pub inlined: Vec<InlinedCall>,
    /// Whether the verifier checks it on its own (`__global` functions).
    pub global: bool,
    /// How many arguments it takes.
    pub arguments: u32,
}

/// What a program is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// `struct_ops/…`; `sleepable` for `struct_ops.s/…`.
    StructOps {
        /// May sleep.
        sleepable: bool,
    },
    /// `syscall`: user space calls it.
    Syscall,
    /// Anything else (`tp_btf/…`, `fentry/…`): its section name.
    Other(String),
}

/// An entry point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its code.
    pub function: FunctionId,
    /// From the section name.
    pub kind: ProgramKind,
    /// False if the section name starts with `?`.
    pub autoload: bool,
}

/// Kinds of maps; the numbers are those of `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    PerfEventArray = 4,
    PercpuHash = 5,
    PercpuArray = 6,
    LruHash = 9,
    ArrayOfMaps = 12,
    Queue = 22,
    Stack = 23,
    Ringbuf = 27,
    TaskStorage = 29,
    UserRingbuf = 31,
    CgroupStorage = 32,
    Arena = 33,
}

impl MapKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [MapKind; 14] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::PerfEventArray,
        MapKind::PercpuHash,
        MapKind::PercpuArray,
        MapKind::LruHash,
        MapKind::ArrayOfMaps,
        MapKind::Queue,
        MapKind::Stack,
        MapKind::Ringbuf,
        MapKind::TaskStorage,
        MapKind::UserRingbuf,
        MapKind::CgroupStorage,
        MapKind::Arena,
    ];

    /// The kind with this number in `enum bpf_map_type`, if it is known here.
    pub fn of(number: u32) -> Option<MapKind> {
        MapKind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// A map, or a data section that acts as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapDef {
    /// Symbol or section name (`.rodata`, `.bss`, `.data.uei_dump`).
    pub name: String,
    /// What it is.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Capacity; 0 where user space sets it before load.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// `map_extra`: for an arena the address at which user space maps it, else 0.
    pub extra: u64,
    /// First value, for data sections; for an arena the contents of `.addr_space.1`, its global variables.
    pub initial: Option<Vec<u8>>,
    /// The programs may not write it (`.rodata`, kconfig).
    pub read_only: bool,
    /// BTF type of the value in [`LinkedObject::btf`], 0 if none.
    pub value_type: u32,
    /// Inner map of an array of maps.
    pub inner: Option<Box<MapDef>>,
    /// Initial slots of an array of maps.
    pub inner_maps: Vec<(u32, MapId)>,
}

/// A global variable, found through BTF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Data-section map that holds it.
    pub map: MapId,
    /// First byte in the map's value.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Its BTF type in [`LinkedObject::btf`].
    pub type_id: u32,
    /// In `.rodata`.
    pub read_only: bool,
}

/// A kfunc that the object names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KfuncRef {
    /// Name with any `___flavour` stripped.
    pub name: String,
    /// Name as the object spells it.
    pub spelled: String,
    /// May be absent from the kernel.
    pub weak: bool,
    /// Whether the target has it.
    pub present: bool,
    /// Number of parameters of its prototype in the object's BTF.
    pub parameters: u32,
}

/// One member of a struct_ops variable that is not zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructOpsMember {
    /// Its name in the object's BTF (the kernel matches by name).
    pub name: String,
    /// What it holds.
    pub value: MemberValue,
}

/// Value of a struct_ops member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberValue {
    /// An op.
    Function(FunctionId),
    /// A number of up to 8 bytes, zero-extended.
    Number(u64),
    /// Bytes of an array, such as the name.
    Bytes(Vec<u8>),
}

/// A struct_ops variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructOps {
    /// Name of the variable.
    pub name: String,
    /// `sched_ext_ops` or `sched_ext_ops_cid`.
    pub type_name: String,
    /// Non-zero members in the order of the struct.
    pub members: Vec<StructOpsMember>,
}

/// An object with every reference resolved.
#[derive(Clone, Debug)]
pub struct LinkedObject {
    /// `license` section.
    pub license: String,
    /// All code.
    pub functions: Vec<Function>,
    /// Entry points.
    pub programs: Vec<Program>,
    /// Maps and data sections.
    pub maps: Vec<MapDef>,
    /// Kfuncs named by the code.
    pub kfuncs: Vec<KfuncRef>,
    /// struct_ops variables.
    pub struct_ops: Vec<StructOps>,
    /// Global variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// The object's own types.
    pub btf: Btf,
}

/// The kernel that an object is linked against.
pub trait Target {
    /// Its types, for CO-RE.
    fn btf(&self) -> &Btf;
    /// Whether it has this kfunc with that many parameters (flavour already stripped).
    fn has_kfunc(&self, name: &str, parameters: u32) -> bool;
    /// Whether it has this variable (`runqueues`, …).
    fn has_variable(&self, name: &str) -> bool;
    /// A kconfig value (`CONFIG_HZ`, `LINUX_KERNEL_VERSION`); tristates as 1 for y, 2 for m. `None`: not set.
    fn kconfig(&self, name: &str) -> Option<u64>;
}

impl LinkedObject {
    /// The one variable of type `struct sched_ext_ops`.
    ///
    /// # Errors
    /// If there is none, or several.
    pub fn scheduler(&self) -> Result<&StructOps, ObjectError> {
        let mut found = self.struct_ops.iter().filter(|ops| ops.type_name == "sched_ext_ops");
        match (found.next(), found.next()) {
            (Some(ops), None) => Ok(ops),
            (Some(first), Some(second)) => {
                let (first, second) = (&first.name, &second.name);
                let problem = format!("the object holds two schedulers, {first} and {second}; one is expected");
                Err(ObjectError::NoScheduler(problem))
            }
            (None, _) => {
                let others: Vec<&str> = self.struct_ops.iter().map(|ops| ops.type_name.as_str()).collect();
                let what = if others.is_empty() { "no struct_ops variable".to_owned() } else { others.join(", ") };
                let problem = format!("not a sched_ext scheduler: expected a struct sched_ext_ops, found {what}");
                Err(ObjectError::NoScheduler(problem))
            }
        }
    }
}
