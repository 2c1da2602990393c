// SPDX-License-Identifier: GPL-2.0-only
//! The types of a kernel: the BTF against which objects are linked, and the layouts of the structs that the model
//! keeps in guest memory.
//!
//! Existence, offsets, sizes and types are those of real kernels: `types/linux-VERSION.btf.zz` are excerpts of the BTF
//! of Debian's 6.18.15 and 7.2.13 (amd64, cloud), compressed with zlib and written by `cargo xtask vm btf`. Another
//! kernel's BTF can take their place ([`KernelTypes::parse`]). Which members have a value is in `members`.

use super::enums;
use super::members::{Live, MEMBERS, Source, Structure};
use bpf_object::btf::{Btf, Kind};
use flate2::read::ZlibDecoder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::{Arc, OnceLock};

/// The packaged types with the versions that have them, the oldest first.
const PACKAGED: [((u16, u16), &[u8]); 2] = [
    ((6, 18), include_bytes!("../../types/linux-6.18.btf.zz")),
    ((7, 2), include_bytes!("../../types/linux-7.2.btf.zz")),
];

/// Types of a kernel. Copies share one set.
#[derive(Clone, Debug)]
pub struct KernelTypes(Arc<Types>);

#[derive(Debug)]
struct Types {
    /// Description of the kernel that has them, for messages.
    name: String,
    btf: Btf,
    /// Layouts in the order of [`MEMBERS`].
    layouts: Vec<Layout>,
    /// Enumerators whose names begin with `SCX_` or `__SCX_`.
    constants: BTreeMap<String, u64>,
    /// Members of the model by struct and path, also as seen from the structs on the path.
    sources: BTreeMap<(String, String), &'static Source>,
}

impl PartialEq for KernelTypes {
    fn eq(&self, other: &KernelTypes) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.btf == other.0.btf
    }
}

/// Why a file of types cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypesError(String);

/// Layout of a struct that the model keeps in guest memory.
#[derive(Debug)]
pub(crate) struct Layout {
    pub name: &'static str,
    /// Size in bytes.
    pub size: u32,
    places: BTreeMap<&'static str, Place>,
    /// Members that are computed when they are read, by offset.
    pub live: Vec<(Place, Live)>,
}

/// Place of a member in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Offset in bytes.
    pub offset: u32,
    /// Size in bytes; 0 for a member that this kernel lacks.
    pub size: u32,
    /// First bit and width of a bit-field; the width of other members is 0.
    pub bits: (u8, u8),
}

impl Place {
    const ABSENT: Place = Place { offset: 0, size: 0, bits: (0, 0) };

    /// Whether this kernel has the member.
    pub fn exists(&self) -> bool {
        self.size > 0
    }

    /// Whether the member overlaps the `len` bytes at `offset`.
    pub fn overlaps(&self, offset: u32, len: u32) -> bool {
        self.offset < offset.saturating_add(len) && offset < self.offset + self.size
    }

    /// Stores a number, truncated to the size of the member. Nothing happens for a member that this kernel lacks.
    pub fn store(&self, object: &mut [u8], value: u64) {
        let (at, len) = (self.offset as usize, self.size as usize);
        let place = &mut object[at..at + len];
        if self.bits.1 == 0 {
            place.copy_from_slice(&value.to_le_bytes()[..len]);
            return;
        }
        let mask = ((1u64 << self.bits.1) - 1) << self.bits.0;
        let mut word = [0; 8];
        word[..len].copy_from_slice(place);
        let word = u64::from_le_bytes(word) & !mask | value << self.bits.0 & mask;
        place.copy_from_slice(&word.to_le_bytes()[..len]);
    }
}

impl Layout {
    fn of(btf: &Btf, structure: &Structure) -> Layout {
        let id = btf.find(structure.name, Kind::Struct);
        let size = id.and_then(|id| btf.size_of(id)).unwrap_or(0) as u32;
        let place = |path: &str| id.and_then(|id| place(btf, id, path)).unwrap_or(Place::ABSENT);
        let places: BTreeMap<&str, Place> =
            structure.members.iter().map(|member| (member.path, place(member.path))).collect();
        let mut live: Vec<(Place, Live)> = Vec::new();
        for member in structure.members {
            if let Source::Live(what) = member.source
                && places[member.path].exists()
            {
                live.push((places[member.path], what));
            }
        }
        live.sort_by_key(|(place, _)| (place.offset, place.bits));
        Layout { name: structure.name, size, places, live }
    }

    /// Place of a member that the table of members lists.
    ///
    /// # Panics
    /// If it does not list it.
    pub fn place(&self, path: &str) -> Place {
        *self.places.get(path).unwrap_or_else(|| panic!("{}.{path} is not in the table of members", self.name))
    }

    /// Offset in bytes of a member that every kernel with sched_ext has.
    pub fn offset(&self, path: &str) -> u32 {
        let place = self.place(path);
        assert!(place.exists(), "{}.{path} was checked when the types were read", self.name);
        place.offset
    }
}

/// Place of a member by its path, which does not lead through pointers.
fn place(btf: &Btf, structure: u32, path: &str) -> Option<Place> {
    let (mut id, mut bit_offset, mut bits) = (structure, 0, 0);
    for name in path.split('.') {
        let found = btf.member(id, name)?;
        bit_offset += found.bit_offset;
        (id, bits) = (found.member.type_id, found.member.bit_size);
    }
    let size = match bits {
        0 => btf.size_of(id)?,
        bits => (bit_offset % 8 + u64::from(bits)).div_ceil(8),
    };
    let bits = ((bit_offset % 8) as u8, bits as u8);
    // A flexible array has no size of its own.
    Some(Place { offset: (bit_offset / 8) as u32, size: (size as u32).max(1), bits })
}

impl KernelTypes {
    /// The types of a modelled version. A version that is not packaged has the types of the next newer one that is,
    /// without what was added since; versions after the newest have its types.
    pub fn of(version: (u16, u16)) -> KernelTypes {
        static READ: [OnceLock<KernelTypes>; PACKAGED.len()] = [const { OnceLock::new() }; PACKAGED.len()];
        let index = PACKAGED.iter().position(|(packaged, _)| *packaged >= version).unwrap_or(PACKAGED.len() - 1);
        let (packaged, bytes) = PACKAGED[index];
        let types = READ[index].get_or_init(|| {
            let (major, minor) = packaged;
            KernelTypes::new(format!("{major}.{minor}"), unpacked(bytes))
                .expect("the packaged types are those of a kernel")
        });
        if version >= packaged {
            return types.clone();
        }
        let btf = types.0.btf.without(&|name| enums::exists(name, version));
        KernelTypes::new(format!("{}.{}", version.0, version.1), btf).expect("older kernels have what is needed")
    }

    /// Reads the BTF of another kernel, such as `/sys/kernel/btf/vmlinux`; `name` is its name in messages.
    ///
    /// # Errors
    /// If the bytes are not BTF, or it is not that of a kernel with sched_ext.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<KernelTypes, TypesError> {
        let btf = Btf::parse(bytes).map_err(|error| TypesError(format!("{name}: {error}")))?;
        KernelTypes::new(name.to_owned(), btf)
    }

    fn new(name: String, btf: Btf) -> Result<KernelTypes, TypesError> {
        let layouts: Vec<Layout> = MEMBERS.iter().map(|structure| Layout::of(&btf, structure)).collect();
        for (structure, layout) in MEMBERS.iter().zip(&layouts) {
            let missing = structure.members.iter().find(|one| one.is_needed && !layout.place(one.path).exists());
            if let Some(missing) = missing {
                let (structure, path) = (structure.name, missing.path);
                let problem =
                    format!("no member {path} in struct {structure}; expected BTF of a kernel with sched_ext");
                return Err(TypesError(format!("{name}: {problem}")));
            }
        }
        let constants = btf.types().flat_map(|(_, ty)| ty.enumerators()).filter(|value| {
            let name = value.name.strip_prefix("__").unwrap_or(&value.name);
            name.starts_with("SCX_")
        });
        let constants = constants.map(|value| (value.name.clone(), value.value)).collect();
        let sources = sources(&btf);
        Ok(KernelTypes(Arc::new(Types { name, btf, layouts, constants, sources })))
    }

    /// Name of the kernel that has them.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The types as BTF.
    pub fn btf(&self) -> &Btf {
        &self.0.btf
    }

    /// Whether `struct sched_ext_ops` has this member.
    pub(crate) fn has_op(&self, name: &str) -> bool {
        let table = self.0.btf.find("sched_ext_ops", Kind::Struct);
        table.is_some_and(|table| self.0.btf.member(table, name).is_some())
    }

    /// Layout of a struct of the table of members.
    pub(crate) fn layout(&self, name: &str) -> &Layout {
        let found = self.0.layouts.iter().find(|layout| layout.name == name);
        found.unwrap_or_else(|| panic!("struct {name} is not in the table of members"))
    }

    /// Value of a constant of sched_ext.
    pub(crate) fn constant(&self, name: &str) -> Option<u64> {
        self.0.constants.get(name).copied()
    }

    /// Names of the event counters, in the kernel's order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = &str> {
        let id = self.0.btf.find("scx_event_stats", Kind::Struct).unwrap_or(0);
        self.0.btf.members(id).iter().map(|member| member.name.as_str())
    }

    /// Number of CPUs that a cpumask of this kernel holds (CONFIG_NR_CPUS).
    pub(crate) fn nr_cpus(&self) -> u32 {
        self.layout("cpumask").size * 8
    }

    /// Whether reading a member, or a struct that is a member, gives its true value. Structs that programs make
    /// themselves, such as arguments of kfuncs, are theirs.
    pub(crate) fn has_value(&self, structure: &str, path: &str) -> bool {
        const OF_PROGRAMS: [&str; 2] = ["scx_bpf_", "bpf_"];
        let inside = format!("{path}.");
        let of_member = |(own, member): &&(String, String)| own == structure && member.starts_with(&inside);
        OF_PROGRAMS.iter().any(|start| structure.starts_with(start))
            || ["scx_event_stats", "upid", "class_rcu_t"].contains(&structure)
            || self.source(structure, path).is_some()
            || self.0.sources.keys().any(|key| of_member(&key))
    }

    /// How the model keeps a member; `None` for a member that it does not model, which reads 0.
    pub(crate) fn source(&self, structure: &str, path: &str) -> Option<&'static Source> {
        let exact = self.0.sources.get(&(structure.to_owned(), path.to_owned())).copied();
        // A member of a modelled array or struct: `cpus_mask.bits`.
        exact.or_else(|| path.rsplit_once('.').and_then(|(outer, _)| self.source(structure, outer)))
    }
}

/// Reads a packaged excerpt.
fn unpacked(packed: &[u8]) -> Btf {
    let mut bytes = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut bytes).expect("the packaged types are compressed with zlib");
    Btf::parse(&bytes).expect("the packaged types are BTF")
}

/// The sources of all members of the table, by struct and path, also as seen from each struct on their paths: a
/// program that has a pointer to `p->se` reads `vruntime` of a `struct sched_entity`.
fn sources(btf: &Btf) -> BTreeMap<(String, String), &'static Source> {
    let mut sources = BTreeMap::new();
    let mut own = BTreeSet::new();
    for structure in MEMBERS {
        let Some(mut id) = btf.find(structure.name, Kind::Struct) else { continue };
        let root = id;
        for member in structure.members {
            id = root;
            let mut rest = member.path;
            own.insert((structure.name.to_owned(), rest.to_owned()));
            sources.insert((structure.name.to_owned(), rest.to_owned()), &member.source);
            while let Some((first, inner)) = rest.split_once('.') {
                let Some(found) = btf.member(id, first) else { break };
                id = btf.resolve(found.member.type_id);
                rest = inner;
                let key = (btf.type_of(id).name().to_owned(), rest.to_owned());
                if !own.contains(&key) {
                    sources.entry(key).or_insert(&member.source);
                }
            }
        }
    }
    sources
}
