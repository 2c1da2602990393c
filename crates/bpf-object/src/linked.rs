// SPDX-License-Identifier: GPL-2.0-only
//! The parts of a linked object: the interface to the crates that execute or load it.

use crate::ObjectError;
use crate::btf::Btf;
use std::collections::BTreeMap;

/// Operation code of `ld_imm64`, which takes two slots.
pub(crate) const LD_IMM64: u8 = 0x18;

/// One eBPF instruction slot, decoded from its 8 bytes. A 64-bit immediate load takes two slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Insn {
    /// Operation code.
    pub code: u8,
    /// Destination register, 0 to 15 as encoded.
    pub dst: u8,
    /// Source register, or a pseudo value that selects the kind of a call or of an `ld_imm64`.
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

/// Object to which the immediate of an instruction refers, for immediates that are not plain numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Symbol {
    /// The address of a map, in `ld_imm64`.
    Map(MapId),
    /// The address of a byte in the (only) value of a data-section map, in `ld_imm64`.
    MapValue {
        /// The data-section map.
        map: MapId,
        /// Offset in the value, in bytes; may be the end of the value.
        offset: u32,
    },
    /// A function of the object, in `call` or, as the address of a callback, in `ld_imm64`.
    Function(FunctionId),
    /// A kfunc, in `call`: index into [`LinkedObject::kfuncs`].
    Kfunc(u32),
    /// The address of a kfunc, in `ld_imm64`: index into [`LinkedObject::kfuncs`]. The value is 0 if the kfunc is
    /// absent, which programs test.
    KfuncAddress(u32),
    /// The address of a kernel variable with this name, in `ld_imm64`. An absent weak variable has no symbol; its
    /// immediate is 0.
    KernelVariable(String),
    /// A CO-RE relocation that could not be resolved. Executing the instruction is a fault with this text.
    Poison(String),
}

/// Source line of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineInfo {
    /// First instruction slot of the line, counted from the start of the function.
    pub insn: u32,
    /// Source file as the compiler names it.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// Column number, from 1; 0 if unknown.
    pub column: u32,
    /// Text of the line; empty if the object does not include it.
    pub text: String,
}

/// A call that the compiler replaced by the code of the called function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InlinedCall {
    /// First instruction slot of the inlined code, counted from the start of the function.
    pub first: u32,
    /// Slot after the last one of the inlined code.
    pub end: u32,
    /// Source file of the call as the compiler names it.
    pub file: String,
    /// Line number of the call.
    pub line: u32,
}

/// A program or subprogram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Symbol name.
    pub name: String,
    /// Instructions, with relocated offsets and immediates.
    pub insns: Vec<Insn>,
    /// Symbols by instruction slot. The immediates of these instructions are zero, except for poison.
    pub symbols: BTreeMap<u32, Symbol>,
    /// Slots of loads whose offset comes from a CO-RE relocation. They read kernel objects and cannot fault in the
    /// kernel.
    pub kernel_loads: Vec<u32>,
    /// Source lines in ascending order of `insn`.
    pub lines: Vec<LineInfo>,
    /// Inlined calls, outer calls before those inside them; empty if the object has no debug information.
    pub inlined: Vec<InlinedCall>,
    /// Whether the verifier checks the function separately (`__global` functions).
    pub global: bool,
    /// Number of arguments.
    pub arguments: u32,
}

/// Program type, from the section name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// An op of a struct_ops table, in section `struct_ops/…`, or `struct_ops.s/…` if it may sleep.
    StructOps {
        /// Whether the program may sleep.
        sleepable: bool,
    },
    /// A program that user space calls, in section `syscall`.
    Syscall,
    /// Another program type (`tp_btf/…`, `fentry/…`): its section name.
    Other(String),
}

/// A program: an entry point of the object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Function that holds its code.
    pub function: FunctionId,
    /// Program type.
    pub kind: ProgramKind,
    /// Whether the program is loaded by default; false if the section name starts with `?`.
    pub autoload: bool,
}

/// Map types; the numbers are those of `enum bpf_map_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PerfEventArray = 4,
    PercpuHash = 5,
    PercpuArray = 6,
    StackTrace = 7,
    CgroupArray = 8,
    LruHash = 9,
    LruPercpuHash = 10,
    LpmTrie = 11,
    ArrayOfMaps = 12,
    HashOfMaps = 13,
    Devmap = 14,
    Sockmap = 15,
    Cpumap = 16,
    Xskmap = 17,
    Sockhash = 18,
    CgroupStorageDeprecated = 19,
    ReuseportSockarray = 20,
    PercpuCgroupStorage = 21,
    Queue = 22,
    Stack = 23,
    SkStorage = 24,
    DevmapHash = 25,
    StructOps = 26,
    Ringbuf = 27,
    InodeStorage = 28,
    TaskStorage = 29,
    BloomFilter = 30,
    UserRingbuf = 31,
    CgroupStorage = 32,
    Arena = 33,
    InsnArray = 34,
}

impl MapKind {
    /// All types of 7.2, in the order of their numbers.
    pub const ALL: [MapKind; 34] = [
        MapKind::Hash,
        MapKind::Array,
        MapKind::ProgArray,
        MapKind::PerfEventArray,
        MapKind::PercpuHash,
        MapKind::PercpuArray,
        MapKind::StackTrace,
        MapKind::CgroupArray,
        MapKind::LruHash,
        MapKind::LruPercpuHash,
        MapKind::LpmTrie,
        MapKind::ArrayOfMaps,
        MapKind::HashOfMaps,
        MapKind::Devmap,
        MapKind::Sockmap,
        MapKind::Cpumap,
        MapKind::Xskmap,
        MapKind::Sockhash,
        MapKind::CgroupStorageDeprecated,
        MapKind::ReuseportSockarray,
        MapKind::PercpuCgroupStorage,
        MapKind::Queue,
        MapKind::Stack,
        MapKind::SkStorage,
        MapKind::DevmapHash,
        MapKind::StructOps,
        MapKind::Ringbuf,
        MapKind::InodeStorage,
        MapKind::TaskStorage,
        MapKind::BloomFilter,
        MapKind::UserRingbuf,
        MapKind::CgroupStorage,
        MapKind::Arena,
        MapKind::InsnArray,
    ];

    /// Returns the type with this number in `enum bpf_map_type`, or `None` if it is unknown.
    pub fn of(number: u32) -> Option<MapKind> {
        MapKind::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Whether maps of this type can be made, if only as opaque objects.
    pub fn is_modelled(self) -> bool {
        use MapKind::*;
        matches!(
            self,
            Hash | Array
                | PerfEventArray
                | PercpuHash
                | PercpuArray
                | LruHash
                | ArrayOfMaps
                | Queue
                | Stack
                | Ringbuf
                | TaskStorage
                | UserRingbuf
                | CgroupStorage
        )
    }

    /// Whether the values of such a map are maps.
    pub fn is_of_maps(self) -> bool {
        matches!(self, MapKind::ArrayOfMaps | MapKind::HashOfMaps)
    }
}

/// A map, or the map that holds a data section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapDef {
    /// Name of the symbol or data section (`.rodata`, `.bss`, `.data.uei_dump`).
    pub name: String,
    /// Map type.
    pub kind: MapKind,
    /// Size of a key in bytes.
    pub key_size: u32,
    /// Size of a value in bytes.
    pub value_size: u32,
    /// Maximum number of entries; 0 if user space sets it before the load.
    pub max_entries: u32,
    /// Flags (`BPF_F_*`).
    pub flags: u32,
    /// `map_extra`: for an arena the address at which user space maps it, else 0.
    pub extra: u64,
    /// Initial value of a data section. For an arena, the contents of `.addr_space.1`, which holds its global
    /// variables.
    pub initial: Option<Vec<u8>>,
    /// Whether programs may not write the map (`.rodata`, kconfig).
    pub read_only: bool,
    /// BTF type of the value in [`LinkedObject::btf`]; 0 if none is given.
    pub value_type: u32,
    /// Template of the inner maps of an array of maps.
    pub inner: Option<Box<MapDef>>,
    /// Initial entries of an array of maps: slot and inner map.
    pub inner_maps: Vec<(u32, MapId)>,
}

/// A global variable with BTF information.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Data-section map that contains the variable.
    pub map: MapId,
    /// Offset in the map's value, in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Its BTF type in [`LinkedObject::btf`].
    pub type_id: u32,
    /// Whether the variable is in `.rodata`.
    pub read_only: bool,
}

/// A kfunc that the object uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KfuncRef {
    /// Name with the flavor (`___NAME`) stripped.
    pub name: String,
    /// Name as the object spells it.
    pub spelled: String,
    /// Whether the kfunc may be absent from the kernel.
    pub weak: bool,
    /// Whether the kernel has the kfunc.
    pub present: bool,
    /// Number of parameters of its prototype in the object's BTF.
    pub parameters: u32,
}

/// A member of a struct_ops variable whose value is not zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructOpsMember {
    /// Name in the object's BTF, by which the kernel finds the member.
    pub name: String,
    /// Value of the member.
    pub value: MemberValue,
}

/// Value of a struct_ops member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberValue {
    /// The function that implements an op.
    Function(FunctionId),
    /// A number of up to 8 bytes, zero-extended.
    Number(u64),
    /// Contents of an array, such as the scheduler's name.
    Bytes(Vec<u8>),
}

/// A struct_ops variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructOps {
    /// Name of the variable.
    pub name: String,
    /// Name of its struct: `sched_ext_ops` or `sched_ext_ops_cid`.
    pub type_name: String,
    /// Non-zero members in the order of the struct.
    pub members: Vec<StructOpsMember>,
}

/// What an instruction does with the member of a kernel's struct that it names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MemberAccess {
    /// Asks whether the kernel has the member (`bpf_core_field_exists`).
    Exists,
    /// Loads it.
    Load,
    /// Stores to it.
    Store,
    /// Computes its address.
    Address,
    /// Asks for its size, sign or position (`bpf_core_field_size`, bit-fields).
    Shape,
}

/// A use of a member of a kernel's struct, by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberUse {
    /// Function that uses it.
    pub function: FunctionId,
    /// Instruction slot in the function.
    pub slot: u32,
    /// Struct from which the path starts, without a flavor.
    pub structure: String,
    /// Path of the member, such as `scx.slice`, without flavors.
    pub path: String,
    /// What the instruction does with the member.
    pub access: MemberAccess,
    /// Whether the kernel has the member, with a type that fits.
    pub present: bool,
}

/// An object whose references are all resolved.
#[derive(Clone, Debug)]
pub struct LinkedObject {
    /// Text of the `license` section.
    pub license: String,
    /// All functions.
    pub functions: Vec<Function>,
    /// Programs (entry points).
    pub programs: Vec<Program>,
    /// Maps and data sections.
    pub maps: Vec<MapDef>,
    /// Kfuncs that the code uses.
    pub kfuncs: Vec<KfuncRef>,
    /// Members of kernel structs that the code uses by name, in the order of the file.
    pub members: Vec<MemberUse>,
    /// struct_ops variables.
    pub struct_ops: Vec<StructOps>,
    /// Global variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// The object's own types.
    pub btf: Btf,
}

/// The kernel that an object is linked against.
pub trait Target {
    /// Types of the kernel, for CO-RE relocations.
    fn btf(&self) -> &Btf;
    /// Whether the kernel has the kfunc `name` with this number of parameters. The flavor is stripped already.
    fn has_kfunc(&self, name: &str, parameters: u32) -> bool;
    /// Whether the kernel has the variable `name`, such as `runqueues`.
    fn has_variable(&self, name: &str) -> bool;
    /// A kconfig value, such as `CONFIG_HZ` or `LINUX_KERNEL_VERSION`. Tristates are 1 for y and 2 for m; `None` if
    /// not set.
    fn kconfig(&self, name: &str) -> Option<u64>;
}

impl LinkedObject {
    /// Returns the only variable of type `struct sched_ext_ops`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, or several.
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
