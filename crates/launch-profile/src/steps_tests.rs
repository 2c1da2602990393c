// SPDX-License-Identifier: GPL-2.0-only
//! Tests of sizes, structures, strings, masks, and map elements, on a hand-made object.

use crate::tests::machine;
use crate::{Profile, Steps};
use bpf_object::btf::{BtfBuilder, Member};
use bpf_object::{LinkedObject, MapDef, MapId, MapKind, Variable};
use std::collections::BTreeMap;

fn map(name: &str, (key_size, value_size, value_type): (u32, u32, u32), initial: Option<Vec<u8>>) -> MapDef {
    MapDef {
        name: name.to_owned(),
        kind: MapKind::Array,
        key_size,
        value_size,
        max_entries: 0,
        flags: 0,
        extra: 0,
        initial,
        read_only: false,
        value_type,
        inner: None,
        inner_maps: vec![],
    }
}

/// Object with `struct layer { u32 id; char name[4]; u64 mask; } layers[2]`, `u32 many[1]` at the end of a section of
/// its own; maps of `u32` and of `struct layer` keyed by `u32`, a queue of `u32`, a per-CPU map of `u32`, and an
/// array of three queues; a map whose values have 8 bytes and no type.
fn object() -> LinkedObject {
    let mut b = BtfBuilder::new();
    let (u32_, u64_) = (b.int("unsigned int", 4, false), b.int("unsigned long", 8, false));
    let char_ = b.int("char", 1, true);
    let name = b.array(char_, 4);
    let members = [("id", 0, u32_), ("name", 4, name), ("mask", 8, u64_)];
    let members = members.iter().map(|(name, at, type_id)| Member::at(name, *at, *type_id)).collect();
    let layer = b.structure("layer", 16, members);
    let (layers, many) = (b.array(layer, 2), b.array(u32_, 1));
    let mut per_cpu = map("per_cpu", (4, 4, u32_), None);
    per_cpu.kind = MapKind::PercpuArray;
    let mut queues = map("queues", (4, 4, 0), None);
    let mut inner = map("queues.inner", (0, 4, u32_), None);
    (queues.kind, queues.max_entries, inner.kind, inner.max_entries) = (MapKind::ArrayOfMaps, 3, MapKind::Queue, 7);
    queues.inner = Some(Box::new(inner));
    let variable = |map, size, type_id| Variable { map: MapId(map), offset: 0, size, type_id, read_only: false };
    LinkedObject {
        license: "GPL".to_owned(),
        functions: vec![],
        programs: vec![],
        maps: vec![
            map(".data", (4, 32, 0), Some(vec![0xee; 32])),
            map(".data.many", (4, 4, 0), Some(vec![0xee; 4])),
            map("numbers", (4, 4, u32_), None),
            map("layer_of", (4, 16, layer), None),
            map("queue", (0, 4, u32_), None),
            per_cpu,
            queues,
            map("untyped", (4, 8, 0), None),
        ],
        kfuncs: vec![],
        members: vec![],
        struct_ops: vec![],
        variables: BTreeMap::from([
            ("layers".to_owned(), variable(0, 32, layers)),
            ("many".to_owned(), variable(1, 4, many)),
        ]),
        btf: b.build(),
    }
}

fn applied(toml: &str) -> Result<(LinkedObject, Steps), String> {
    let mut object = object();
    let profile = Profile::from_toml("p.toml", toml).map_err(|error| error.to_string())?;
    profile.apply(&mut object, &machine()).map_err(|error| error.to_string())?;
    let steps = profile.steps(&object, &machine()).map_err(|error| error.to_string())?;
    Ok((object, steps))
}

fn section(toml: &str, index: usize) -> Vec<u8> {
    applied(toml).unwrap().0.maps[index].initial.clone().unwrap()
}

#[test]
fn structure_members_are_set_by_name_and_others_keep_their_values() {
    let bytes = section("[rodata]\nlayers = [{ id = 7, name = \"ab\" }, { mask = 5 }]", 0);
    assert_eq!(bytes[..16], [7, 0, 0, 0, b'a', b'b', 0, 0, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee]);
}

#[test]
fn cpu_masks_are_encoded_as_bits() {
    let bytes = section("[rodata]\nlayers = [{ mask = { machine = \"cpu-mask\" } }]", 0);
    assert_eq!(bytes[8..16], [0xff, 0, 0, 0, 0, 0, 0, 0]);
    let toml = "[[element]]\nmap = \"layer_of\"\nkey = { machine = \"cpu-numbers\" }\n\
                value = { id = { machine = \"sibling-of-cpu\" }, mask = { machine = \"node-mask-of-cpu\" }, name = \"x\" }";
    let (_, steps) = applied(toml).unwrap();
    let shown: Vec<(u8, u8, u8)> =
        steps.elements.iter().map(|one| (one.key[0], one.values[0][0], one.values[0][8])).collect();
    // Siblings are 4 apart; the nodes are CPUs 0 1 4 5 and 2 3 6 7.
    let expected = [(4, 0x33), (5, 0x33), (6, 0xcc), (7, 0xcc), (0, 0x33), (1, 0x33), (2, 0xcc), (3, 0xcc)];
    let expected: Vec<(u8, u8, u8)> = (0..).zip(expected).map(|(cpu, (sibling, mask))| (cpu, sibling, mask)).collect();
    assert_eq!(shown, expected);
}

#[test]
fn arrays_and_maps_are_resized() {
    let toml = "[resize]\nmany = { machine = \"cpus\" }\n[rodata]\nmany = [1, 2]\n[maps.numbers]\nmax_entries = 5";
    let (object, _) = applied(toml).unwrap();
    assert_eq!((object.maps[1].value_size, object.variables["many"].size), (32, 32));
    let mut expected = vec![1, 0, 0, 0, 2, 0, 0, 0];
    expected.resize(32, 0);
    assert_eq!(object.maps[1].initial.as_ref().unwrap(), &expected);
    assert_eq!(object.maps[2].max_entries, 5);
}

#[test]
fn elements_are_written_to_arrays_and_queues() {
    let toml = "[[element]]\nmap = \"numbers\"\nkey = [3, 4]\nvalue = 9\n[[element]]\nmap = \"queue\"\nvalue = [5, 6]";
    let (_, steps) = applied(toml).unwrap();
    let shown: Vec<_> = steps.elements.iter().map(|one| (one.map.as_str(), &one.key[..], one.values[0][0])).collect();
    let expected: [(&str, &[u8], u8); 4] =
        [("numbers", &[3, 0, 0, 0], 9), ("numbers", &[4, 0, 0, 0], 9), ("queue", &[], 5), ("queue", &[], 6)];
    assert_eq!(shown, expected);
}

#[test]
fn values_without_a_type_are_numbers_that_fill_them() {
    let values = |key: &str, value: &str| {
        let toml = format!("[[element]]\nmap = \"untyped\"\nkey = {key}\nvalue = {value}");
        applied(&toml).map(|(_, steps)| steps.elements.into_iter().map(|one| one.values[0].clone()).collect::<Vec<_>>())
    };
    assert_eq!(values("1", "[258, -1]").unwrap(), [[2, 1, 0, 0, 255, 255, 255, 255]]);
    assert_eq!(values("1", "[1, 2, 3, 4, 5, 6, 7, 8]").unwrap(), [[1, 2, 3, 4, 5, 6, 7, 8]]);
    assert_eq!(values("1", "7").unwrap(), [[7, 0, 0, 0, 0, 0, 0, 0]]);
    // One value for each key.
    assert_eq!(values("[1, 2]", "[[1, 2], 3]").unwrap(), [[1, 0, 0, 0, 2, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0]]);
    let refused = values("1", "[1, 2, 3]").unwrap_err();
    assert!(refused.contains("3 numbers for 8 bytes without a type; expected 8 of 1 byte, or fewer"), "{refused}");
    let refused = values("1", "[1, 2, 3, 4, 5, 6, 7, 256]").unwrap_err();
    assert!(refused.contains("256 does not fit into 1 bytes"), "{refused}");
}

#[test]
fn spread_members_fill_an_array_of_structures() {
    let bytes = section("[rodata.layers]\nid = [3, 4]\nname = \"ab\"\nmask = { machine = \"llc-masks\" }", 0);
    let layer = |id: u8, mask: u8| [id, 0, 0, 0, b'a', b'b', 0, 0, mask, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes, [layer(3, 0x33), layer(4, 0xcc)].concat());
    // An array for a member that is an array is the value of that member in each structure.
    let bytes = section("[rodata.layers]\nid = [3, 4]\nname = [97, 98, 0]\nmask = [1, 2]", 0);
    let layer = |id: u8, mask: u8| [id, 0, 0, 0, b'a', b'b', 0, 0xee, mask, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes, [layer(3, 1), layer(4, 2)].concat());
}

#[test]
fn per_cpu_element_has_a_value_per_cpu() {
    let toml = "[[element]]\nmap = \"per_cpu\"\nkey = 0\nper-cpu = true\nvalue = { machine = \"core-of-cpu\" }";
    let (_, steps) = applied(toml).unwrap();
    let values: Vec<u8> = steps.elements[0].values.iter().map(|value| value[0]).collect();
    assert_eq!((steps.elements.len(), values), (1, vec![0, 1, 2, 3, 0, 1, 2, 3]));
    let (_, steps) = applied("[[element]]\nmap = \"per_cpu\"\nkey = [0, 1]\nvalue = [5, 6]").unwrap();
    let values: Vec<(u8, usize, u8)> =
        steps.elements.iter().map(|one| (one.key[0], one.values.len(), one.values[0][0])).collect();
    assert_eq!(values, [(0, 1, 5), (1, 1, 6)]);
}

#[test]
fn empty_slots_of_an_array_of_maps_are_filled_with_the_declared_map() {
    let (mut object, _) = applied("[maps.queues]\nfill = { machine = \"llcs\" }").unwrap();
    let slots = &object.maps[6].inner_maps;
    assert_eq!(slots[..], [(0, MapId(8)), (1, MapId(9))]);
    for inner in &object.maps[8..] {
        assert_eq!((inner.kind, inner.value_size, inner.max_entries), (MapKind::Queue, 4, 7));
    }
    let profile = Profile::from_toml("p.toml", "[maps.queues]\nfill = 3").unwrap();
    profile.apply(&mut object, &machine()).unwrap();
    profile.apply(&mut object, &machine()).unwrap();
    assert_eq!(object.maps[6].inner_maps[..], [(0, MapId(8)), (1, MapId(9)), (2, MapId(10))]);
}

#[test]
fn machine_values_can_be_computed_with() {
    let numbers = |formula: &str| {
        let (object, _) = applied(&format!("[resize]\nmany = 8\n[rodata]\nmany = {formula}")).unwrap();
        object.maps[1].initial.as_ref().unwrap().chunks(4).map(|bytes| bytes[0]).collect::<Vec<u8>>()
    };
    let half = "{ machine = \"cpus\", over = 2 }";
    let cpu = "machine = \"cpu-numbers\"";
    assert_eq!(numbers(&format!("{{ {cpu}, plus = {half}, modulo = 8 }}")), [4, 5, 6, 7, 0, 1, 2, 3]);
    assert_eq!(numbers(&format!("{{ {cpu}, modulo = {half} }}")), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(numbers(&format!("{{ {cpu}, over = {half} }}")), [0, 0, 0, 0, 1, 1, 1, 1]);
    // Multiplication precedes addition, in whatever order they are written.
    assert_eq!(numbers(&format!("{{ plus = 1, times = 2, {cpu} }}")), [1, 3, 5, 7, 9, 11, 13, 15]);
    // A table is added element by element; both must have the same length.
    let cores = "{ machine = \"core-of-cpu\" }";
    assert_eq!(numbers(&format!("{{ {cpu}, plus = {cores} }}")), [0, 2, 4, 6, 4, 6, 8, 10]);
}

#[test]
fn invalid_steps_are_refused_with_the_line() {
    for (toml, expected) in [
        ("[resize]\nlayers = 0", "p.toml:2: `layers`: expected a number from 1 to 4294967295"),
        ("[resize]\nmany = 99999999", "p.toml:2: `many`: larger than a section may be"),
        ("[resize]\nman = 2", "p.toml:2: unknown variable of the object `man`: did you mean `many`?"),
        ("[maps.number]\nmax_entries = 1", "p.toml:2: unknown map of the object `number`: did you mean `numbers`?"),
        ("[maps.numbers]\nsize = 1", "p.toml:2: unknown key of a map `size`: expected `fill`, `max_entries`"),
        (
            "[rodata]\nlayers = [{ ids = 1 }]",
            "p.toml:2: `layers`: unknown member of `struct layer` `ids`: did you mean `id`?",
        ),
        (
            "[rodata]\nlayers = [{ name = \"abcd\" }]",
            "p.toml:2: `layers`: `name`: \"abcd\" and its NUL do not fit into 4 bytes",
        ),
        (
            "[rodata]\nlayers = [1]",
            "p.toml:2: `layers`: expected members by name, not 1: the variable is `struct layer`",
        ),
        ("[[element]]\nmap = \"numbers\"\nvalue = 1", "p.toml:1: the element has no `key`"),
        ("[rodata.layers]\nid = [1, 2]\nmask = [1]", "p.toml:1: `layers`: `mask`: 1 values, but another member has 2"),
        (
            "[rodata.layers]\nid = [1, 2, 3]",
            "p.toml:1: `layers`: 3 values do not fit: the variable is `struct layer[2]` with room for 2",
        ),
        (
            "[rodata.layers]\nid = 1",
            "p.toml:1: `layers`: expected an array, or members with an array, not members by name: the variable is \
             `struct layer[2]`",
        ),
        (
            "[[element]]\nmap = \"numbers\"\nkey = 0\nper-cpu = true\nvalue = 1",
            "p.toml:1: map `numbers` is not a per-CPU map",
        ),
        (
            "[[element]]\nmap = \"per_cpu\"\nkey = [0, 1]\nper-cpu = true\nvalue = 1",
            "p.toml:1: per-CPU values require exactly one `key`",
        ),
        ("[maps.queues]\nfill = 4", "p.toml:2: `queues`: 4 maps do not fit into 3 slots"),
        ("[maps.queue]\nfill = 1", "p.toml:2: `queue`: only an array of maps can be filled"),
        (
            "[rodata]\nmany = { machine = \"cpu-numbers\", modulo = { machine = \"cpus\", over = 9 } }",
            "p.toml:2: `many`: 0 modulo 0 has no result on this machine",
        ),
        (
            "[rodata]\nmany = { machine = \"cpu-numbers\", plus = { machine = \"llc-numbers\" } }",
            "p.toml:2: `many`: `plus` takes numbers, or tables of the same length",
        ),
        (
            "[rodata]\nmany = { machine = \"cpus\", minus = 1 }",
            "p.toml:2: `many`: expected an array, not members by name: the variable is `unsigned int[1]`",
        ),
        ("[[element]]\nmap = \"numbers\"\nkey = 1", "p.toml:1: the element has no `value`"),
        (
            "[[element]]\nmap = \"numbers\"\nkey = [1, 2]\nvalue = [1]",
            "p.toml:4: value of map `numbers`: 1 values, but more keys",
        ),
        (
            "[[element]]\nmap = \"numbers\"\nkey = 0x1_0000_0000\nvalue = 1",
            "p.toml:3: key of map `numbers`: 4294967296 does not fit into 4 bytes",
        ),
    ] {
        assert_eq!(applied(toml).err().as_deref(), Some(expected), "{toml}");
    }
}
