// SPDX-License-Identifier: GPL-2.0-only
//! BPF objects and BTF: arbitrary bytes never cause a panic, and accepted objects are consistent.

use bpf_object::btf::{Btf, BtfBuilder, Member};
use bpf_object::{Function, LinkedObject, MapId, MemberValue, Object, Symbol, Target};

/// A kernel with every kfunc, variable and kconfig value, and few types.
struct Kernel(Btf);

impl Kernel {
    fn new() -> Kernel {
        let mut b = BtfBuilder::new();
        let number = b.int("unsigned int", 4, false);
        let long = b.int("unsigned long", 8, false);
        let words = b.array(long, 128);
        b.structure("cpumask", 1024, vec![Member::at("bits", 0, words)]);
        let inner =
            b.structure("sched_ext_entity", 24, vec![Member::at("weight", 4, number), Member::at("slice", 16, long)]);
        let members =
            vec![Member::at("scx", 64, inner), Member::at("pid", 200, number), Member::bits("low", 3, 7, number)];
        b.structure("task_struct", 256, members);
        b.enumeration("scx_flags", &[("SCX_KNOWN", 3)]);
        Kernel(b.build())
    }
}

impl Target for Kernel {
    fn btf(&self) -> &Btf {
        &self.0
    }
    fn has_kfunc(&self, _: &str, _: u32) -> bool {
        true
    }
    fn has_variable(&self, _: &str) -> bool {
        true
    }
    fn kconfig(&self, _: &str) -> Option<u64> {
        Some(1)
    }
}

/// Parses bytes as BTF and as an object. Returns whether they are an object that can be linked.
pub fn run(bytes: &[u8]) -> bool {
    if let Ok(btf) = Btf::parse(bytes) {
        assert_eq!(Btf::parse(&btf.to_bytes()).as_ref(), Ok(&btf), "encoded types are parsed back unchanged");
    }
    let linked = Object::parse(bytes).and_then(|object| object.link(&Kernel::new()));
    linked.as_ref().map(check).is_ok()
}

/// Checks the properties of a linked object that its loaders rely on.
fn check(object: &LinkedObject) {
    for function in &object.functions {
        check_function(object, function);
    }
    for program in &object.programs {
        assert!((program.function.0 as usize) < object.functions.len());
    }
    for map in &object.maps {
        let inner = |(_, id): &(u32, MapId)| (id.0 as usize) < object.maps.len();
        assert!(map.inner_maps.iter().all(inner));
    }
    for (name, variable) in &object.variables {
        let bytes = object.maps[variable.map.0 as usize].initial.as_ref().expect("variables are in data sections");
        assert!((variable.offset as usize + variable.size as usize) <= bytes.len(), "{name}");
    }
    for member in object.struct_ops.iter().flat_map(|ops| &ops.members) {
        if let MemberValue::Function(id) = member.value {
            assert!((id.0 as usize) < object.functions.len());
        }
    }
    assert_eq!(Btf::parse(&object.btf.to_bytes()).as_ref(), Ok(&object.btf));
}

fn check_function(object: &LinkedObject, function: &Function) {
    let slots = function.insns.len();
    for (slot, symbol) in &function.symbols {
        let insn = function.insns[*slot as usize];
        let poisoned = matches!(symbol, Symbol::Poison(_));
        assert!(poisoned || insn.code != 0x18 || (*slot as usize + 1) < slots, "a whole 64-bit load");
        match symbol {
            Symbol::Map(id) => assert!((id.0 as usize) < object.maps.len()),
            Symbol::MapValue { map, offset } => {
                let bytes = object.maps[map.0 as usize].initial.as_ref().expect("only data sections are addressed");
                assert!(*offset as usize <= bytes.len());
            }
            Symbol::Function(id) => assert!((id.0 as usize) < object.functions.len()),
            Symbol::Kfunc(id) | Symbol::KfuncAddress(id) => assert!((*id as usize) < object.kfuncs.len()),
            Symbol::KernelVariable(_) | Symbol::Poison(_) => {}
        }
    }
    assert!(function.kernel_loads.iter().all(|slot| (*slot as usize) < slots));
    assert!(function.lines.is_sorted_by_key(|line| line.insn));
}
