// SPDX-License-Identifier: GPL-2.0-only
//! Tests of profiles on a hand-made object.

use super::*;
use bpf_object::btf::{Btf, BtfBuilder, Member};
use bpf_object::{
    Function, FunctionId, LinkedObject, MapDef, MapId, MapKind, MemberValue, Program, ProgramKind, StructOps,
    StructOpsMember, Variable,
};
use expect_test::{Expect, expect};
use ids::{CpuSet, Nanos, Place, Topology};
use invariants::{GangsBy, Promises, WeightedShare, Weights, WorkConserving};
use machine_model::{Costs, Machine};

/// Two nodes of one cache each, two cores of two threads each; sibling CPU numbers differ by 4, as Linux numbers them
/// on laptops.
pub(crate) fn machine() -> Machine {
    let halves = [0, 0, 1, 1, 0, 0, 1, 1];
    let topology = Topology::of_groups(&[0, 1, 2, 3, 0, 1, 2, 3], &halves, &halves);
    Machine {
        name: "test".to_owned(),
        description: String::new(),
        topology: topology.with_distances(vec![vec![10, 21], vec![21, 10]]),
        offline: CpuSet::new(),
        absent: CpuSet::new(),
        hz: 250,
        no_hz_idle: true,
        newidle_ratio: None,
        autogroup: false,
        private_kb: 0,
        llc_kb: 2048,
        noise: Default::default(),
        effects: Default::default(),
        caveats: Vec::new(),
        costs: Costs {
            context_switch_ns: 0,
            ipi_ns: [0; 3],
            idle_exit_ns: 0,
            interrupt_ns: 0,
            tick_ns: 0,
            instruction_ps: 0,
            callback_ns: 0,
            call_ns: [0; 6],
            wakeup_ns: 0,
            fork_ns: 0,
            clone_ns: 0,
            ipi_send_ns: 0,
            halt: None,
            attach_ns: 0,
            disable_ns: 0,
        },
    }
}

#[test]
fn left_out_programs_are_not_loaded_and_not_in_the_ops_table() {
    let profile = |names: &str| Profile::from_toml("p.toml", &format!("leave-out = {names}")).unwrap();
    let function = |name: &str| Function {
        name: name.to_owned(),
        insns: vec![],
        symbols: Default::default(),
        kernel_loads: vec![],
        lines: vec![],
        inlined: vec![],
        global: true,
        arguments: 0,
    };
    let mut linked = object();
    linked.functions = vec![function("watch"), function("the_op")];
    let kinds = [ProgramKind::Other("fentry/x".to_owned()), ProgramKind::StructOps { sleepable: false }];
    let programs = kinds.into_iter().zip(0..);
    let program = |(kind, index)| Program { function: FunctionId(index), kind, autoload: true };
    linked.programs = programs.map(program).collect();
    linked.struct_ops[0].members[0].value = MemberValue::Function(FunctionId(1));
    let left = |names: &str| {
        let mut linked = linked.clone();
        profile(names).apply(&mut linked, &machine()).map(|()| {
            let loaded = linked.programs.iter().map(|program| program.autoload).collect::<Vec<_>>();
            (loaded, linked.struct_ops[0].members[0].value.clone())
        })
    };
    assert_eq!(left("[\"watch\"]"), Ok((vec![false, true], MemberValue::Function(FunctionId(1)))));
    assert_eq!(left("[\"the_op\"]"), Ok((vec![true, false], MemberValue::Number(0))));
    let error = left("[\n\"wach\"]").unwrap_err().to_string();
    assert!(error.starts_with("p.toml:2: ") && error.contains("watch"), "{error}");
}

/// Object with variables of every type in `.rodata`, and a struct_ops table with one op.
fn object() -> LinkedObject {
    let mut b = BtfBuilder::new();
    let u8_ = b.int("unsigned char", 1, false);
    let s32 = b.int("int", 4, true);
    let u64_ = b.int("unsigned long long", 8, false);
    let u64_ = b.typedef("u64", u64_);
    let bool_ = b.bool("bool");
    let pointer = b.pointer(0);
    let (table, square) = (b.array(u8_, 8), b.array(s32, 2));
    let square = b.array(square, 2);
    let name = b.array(u8_, 128);
    let members = [("select_cpu", 0, pointer), ("flags", 8, u64_), ("timeout_ms", 16, s32), ("name", 20, name)];
    let members = members.iter().map(|(name, at, type_id)| Member::at(name, *at, *type_id)).collect();
    b.structure("sched_ext_ops", 152, members);
    let types = [u8_, s32, u64_, bool_, table, square, pointer];
    let mut qualified = |id: u32| {
        let id = b.volatile(id);
        b.constant(id)
    };
    let types = types.map(&mut qualified);
    let btf: Btf = b.build();
    let names = ["byte", "signed", "wide", "truth", "table", "square", "pointer"];
    let (mut variables, mut offset) = (BTreeMap::new(), 0);
    for (name, type_id) in names.iter().zip(types) {
        let size = btf.size_of(type_id).unwrap() as u32;
        variables.insert((*name).to_owned(), Variable { map: MapId(0), offset, size, type_id, read_only: true });
        offset += size;
    }
    let rodata = MapDef {
        name: ".rodata".to_owned(),
        kind: MapKind::Array,
        key_size: 4,
        value_size: offset,
        max_entries: 1,
        flags: 0,
        extra: 0,
        initial: Some(vec![0xee; offset as usize]),
        read_only: true,
        value_type: 0,
        inner: None,
        inner_maps: vec![],
    };
    let name = StructOpsMember { name: "name".to_owned(), value: MemberValue::Bytes(vec![b'x']) };
    let ops = StructOps { name: "ops".to_owned(), type_name: "sched_ext_ops".to_owned(), members: vec![name] };
    LinkedObject {
        license: "GPL".to_owned(),
        functions: vec![],
        programs: vec![],
        maps: vec![rodata],
        kfuncs: vec![],
        members: vec![],
        struct_ops: vec![ops],
        variables,
        btf,
    }
}

/// Applies the profile and lists the variables that changed and the numbers in the table, or returns the error.
fn outcome(toml: &str, preset: Option<&str>, tunables: &[(&str, &str)]) -> String {
    let mut object = object();
    let tunables: Vec<_> = tunables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let applied = Profile::from_toml("p.toml", toml).and_then(|mut profile| {
        profile.select(preset, &tunables)?;
        profile.apply(&mut object, &machine())
    });
    if let Err(error) = applied {
        return format!("{error}\n");
    }
    let bytes = object.maps[0].initial.as_ref().unwrap();
    let mut shown = String::new();
    for (name, variable) in &object.variables {
        let bytes = &bytes[variable.offset as usize..][..variable.size as usize];
        if bytes.iter().any(|byte| *byte != 0xee) {
            shown += &format!("{name} = {bytes:02x?}\n");
        }
    }
    for member in &object.struct_ops[0].members {
        if let MemberValue::Number(number) = member.value {
            shown += &format!("ops.{} = {number:#x}\n", member.name);
        }
    }
    shown
}

fn check(toml: &str, expected: Expect) {
    expected.assert_eq(&outcome(toml, None, &[]));
}

#[test]
fn constants_of_every_type_are_applied() {
    check(
        "[rodata]\nbyte = 255\nsigned = -2\nwide = 0xffff_ffff_ffff\ntruth = true\ntable = [1, 2]\nsquare = [[1, -1]]",
        expect![[r#"
            byte = [ff]
            signed = [fe, ff, ff, ff]
            square = [01, 00, 00, 00, ff, ff, ff, ff, ee, ee, ee, ee, ee, ee, ee, ee]
            table = [01, 02, ee, ee, ee, ee, ee, ee]
            truth = [01]
            wide = [ff, ff, ff, ff, ff, ff, 00, 00]
        "#]],
    );
}

#[test]
fn machine_values_are_applied() {
    // Siblings are 4 apart, so the order by place is 0 4 1 5 | 2 6 3 7.
    for (source, expected) in [
        ("core-of-cpu", "[00, 01, 02, 03, 00, 01, 02, 03]"),
        ("llc-of-cpu", "[00, 00, 01, 01, 00, 00, 01, 01]"),
        ("node-of-cpu", "[00, 00, 01, 01, 00, 00, 01, 01]"),
        ("cpus-by-place", "[00, 04, 01, 05, 02, 06, 03, 07]"),
        ("place-of-cpu", "[00, 02, 04, 06, 01, 03, 05, 07]"),
        ("llc-begin-of-cpu", "[00, 00, 04, 04, 00, 00, 04, 04]"),
        ("llc-end-of-cpu", "[04, 04, 08, 08, 04, 04, 08, 08]"),
        ("node-begin-of-cpu", "[00, 00, 04, 04, 00, 00, 04, 04]"),
        ("node-end-of-cpu", "[04, 04, 08, 08, 04, 04, 08, 08]"),
    ] {
        let shown = outcome(&format!("[rodata]\ntable = {{ machine = \"{source}\" }}"), None, &[]);
        assert_eq!(shown, format!("table = {expected}\n"), "{source}");
    }
    for (source, expected) in [("cpus", 8), ("cores", 4), ("llcs", 2), ("nodes", 2), ("hz", 250)] {
        let shown = outcome(&format!("[rodata]\nbyte = {{ machine = \"{source}\" }}"), None, &[]);
        assert_eq!(shown, format!("byte = [{expected:02x}]\n"), "{source}");
    }
    check(
        "[rodata]\nsquare = { machine = \"distance\" }",
        expect![[r#"
            square = [0a, 00, 00, 00, 15, 00, 00, 00, 15, 00, 00, 00, 0a, 00, 00, 00]
        "#]],
    );
}

#[test]
fn ops_flags_are_added_and_members_stay_in_struct_order() {
    check(
        "[ops]\nflags = [\"ENQ_LAST\", \"ENQ_EXITING\"]\ntimeout_ms = 5000",
        expect![[r#"
            ops.flags = 0x6
            ops.timeout_ms = 0x1388
        "#]],
    );
    let mut object = object();
    let flags = StructOpsMember { name: "flags".to_owned(), value: MemberValue::Number(1) };
    object.struct_ops[0].members.insert(0, flags);
    let profile = Profile::from_toml("p.toml", "[ops]\nflags = [\"ENQ_LAST\"]").unwrap();
    profile.apply(&mut object, &machine()).unwrap();
    assert_eq!(object.struct_ops[0].members[0].value, MemberValue::Number(3));
    let profile = Profile::from_toml("p.toml", "[ops]\ntimeout_ms = 1").unwrap();
    profile.apply(&mut object, &machine()).unwrap();
    let names: Vec<&str> = object.struct_ops[0].members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["flags", "timeout_ms", "name"]);
}

const TUNABLE: &str = r#"
[rodata]
byte = 1
signed = 1
[tunables.byte]
type = "integer"
range = [1, 100]
doc = "a byte"
[tunables.truth]
type = "bool"
doc = "a truth"
[presets.many]
byte = 50
[presets."0.360"]
signed = { machine = "cpus" }
"#;

#[test]
fn command_line_overrides_preset_and_preset_overrides_profile() {
    for (preset, tunables, byte, signed) in [
        (None, &[][..], 1, 1),
        (Some("many"), &[], 50, 1),
        (Some("0.360"), &[], 1, 8),
        (Some("many"), &[("byte", "0x10")], 16, 1),
        (None, &[("byte", "7"), ("byte", "9")], 9, 1),
    ] {
        let shown = outcome(TUNABLE, preset, tunables);
        assert_eq!(shown, format!("byte = [{byte:02x}]\nsigned = [{signed:02x}, 00, 00, 00]\n"));
    }
    assert!(outcome(TUNABLE, None, &[("truth", "true")]).contains("truth = [01]"));
}

#[test]
fn any_variable_may_be_set_without_declared_tunables() {
    let shown = |key, value| outcome("summary = \"\"", None, &[(key, value)]);
    assert_eq!(shown("byte", "0x10"), "byte = [10]\n");
    assert_eq!(shown("truth", "false"), "truth = [00]\n");
    for (key, value, expected) in [
        ("byt", "1", "byt=1: unknown variable of the object `byt`: did you mean `byte`?"),
        ("byte", "256", "byte=256: `byte`: 256 does not fit: the variable is `unsigned char` (0 to 255)"),
        ("byte", "true", "byte=true: `byte`: expected a number, not true: the variable is `unsigned char`"),
        ("byte", "much", "byte=much: expected a number, true or false, not `much`"),
    ] {
        assert_eq!(shown(key, value), format!("{expected}\n"));
    }
}

#[test]
fn command_line_errors_state_what_was_expected() {
    for (preset, key, value, expected) in [
        (Some("0.36"), "", "", "@0.36: unknown preset `0.36`: did you mean `0.360`?"),
        (Some("vrq"), "", "", "@vrq: unknown preset `vrq`: expected `0.360`, `many`"),
        (None, "byt", "1", "byt=1: unknown tunable `byt`: did you mean `byte`?"),
        (None, "signed", "1", "signed=1: unknown tunable `signed`: expected `byte`, `truth`"),
        (None, "byte", "101", "byte=101: 101 is out of range: expected 1 to 100"),
        (None, "byte", "true", "byte=true: expected a number, not `true`"),
        (None, "byte", "", "byte=: expected a number, not ``"),
        (None, "truth", "1", "truth=1: expected true or false, not `1`"),
    ] {
        let tunables = [(key, value)];
        let tunables = if key.is_empty() { &[] } else { &tunables[..] };
        assert_eq!(outcome(TUNABLE, preset, tunables), format!("{expected}\n"));
    }
}

#[test]
fn profile_errors_state_the_line_and_what_was_expected() {
    for (toml, expected) in [
        ("summary = ", "p.toml:1: not TOML: string values must be quoted, expected literal string"),
        ("\nsumary = 1", "p.toml:2: unknown key `sumary`: did you mean `summary`?"),
        ("summary = 1", "p.toml:1: expected a string, not integer"),
        ("rodata = 1", "p.toml:1: expected a table, not integer"),
        ("[ops]\nflags = [\"ENQ_LASTS\"]", "p.toml:2: unknown ops flag `ENQ_LASTS`: did you mean `ENQ_LAST`?"),
        ("[ops]\nflags = [\"enq_last\"]", "p.toml:2: unknown ops flag `enq_last`: did you mean `ENQ_LAST`?"),
        ("[ops]\ntimeout_ms = -1", "p.toml:2: expected milliseconds from 0 to 4294967295"),
        ("[ops]\ntimeout = 1", "p.toml:2: unknown key of [ops] `timeout`: expected `flags`, `timeout_ms`"),
        ("[rodata]\n\ntabel = [1]", "p.toml:3: unknown variable of the object `tabel`: did you mean `table`?"),
        ("[presets.a]\nbytes = 1", "p.toml:2: unknown variable of the object `bytes`: did you mean `byte`?"),
        ("[rodata]\nbyte = 256", "p.toml:2: `byte`: 256 does not fit: the variable is `unsigned char` (0 to 255)"),
        (
            "[rodata]\nsigned = 2147483648",
            "p.toml:2: `signed`: 2147483648 does not fit: the variable is `int` (-2147483648 to 2147483647)",
        ),
        ("[rodata]\nwide = true", "p.toml:2: `wide`: expected a number, not true: the variable is `u64`"),
        ("[rodata]\ntruth = 1", "p.toml:2: `truth`: expected true or false, not 1: the variable is `bool`"),
        (
            "[rodata]\nbyte = [1]",
            "p.toml:2: `byte`: expected a number, not an array of 1: the variable is `unsigned char`",
        ),
        ("[rodata]\ntable = 1", "p.toml:2: `table`: expected an array, not 1: the variable is `unsigned char[8]`"),
        (
            "[rodata]\nsquare = [[1], [2], [3]]",
            "p.toml:2: `square`: 3 values do not fit: the variable is `int[2][2]` with room for 2",
        ),
        (
            "[rodata]\npointer = 1",
            "p.toml:2: `pointer`: the variable is `pointer`: only integers, booleans, strings, and arrays and structures of these can be set",
        ),
        (
            "[rodata]\nbyte = 1.5",
            "p.toml:2: expected an integer, true, false, a string, an array or table of these, or { machine = \"NAME\" }, \
             not float",
        ),
        (
            "[rodata]\nbyte = { machin = \"cpus\" }",
            "p.toml:2: `byte`: expected a number, not members by name: the variable is `unsigned char`",
        ),
        ("[rodata]\nbyte = {}", "p.toml:2: expected { machine = \"NAME\" } or members, not an empty table"),
        (
            "[rodata]\ntable = { machine = \"llc-off-cpu\" }",
            "p.toml:2: unknown machine value `llc-off-cpu`: did you mean `llc-of-cpu`?",
        ),
        (
            "[rodata]\nbyte = { machine = \"distance\" }",
            "p.toml:2: `byte`: machine value `distance` of `test`: expected a number, not an array of 2: the variable \
             is `unsigned char`",
        ),
        ("[tunables.byte]\ndoc = \"\"", "p.toml:1: `byte` has no `type`"),
        ("[tunables.byte]\ntype = \"integer\"", "p.toml:1: `byte` has no `doc`"),
        ("[tunables.byte]\ntype = \"int\"", "p.toml:2: unknown type of a tunable `int`: expected `bool`, `integer`"),
        ("[tunables.byte]\ntype = \"bool\"\nrange = [0, 1]", "p.toml:3: a tunable of type bool has no range"),
        ("[tunables.byte]\nrange = [2, 1]", "p.toml:2: expected [low, high] with low <= high"),
        (
            "[rodata]\nbyte = 9\n[tunables.byte]\ntype = \"integer\"\nrange = [1, 5]\ndoc = \"\"",
            "p.toml:2: `byte`: 9 is out of range: expected 1 to 5",
        ),
        (
            "[tunables.bytes]\ntype = \"bool\"\ndoc = \"\"",
            "p.toml:1: unknown variable of the object `bytes`: did you mean `byte`?",
        ),
        ("[claims]\nwork-conserving = 1", "p.toml:2: expected true, false or \"eventually\""),
        (
            "[claims]\nwork_conserving = true",
            "p.toml:2: unknown promise `work_conserving`: did you mean `work-conserving`?",
        ),
        ("[promises]\nstarvation-ms = 0", "p.toml:2: expected milliseconds, 1 to 4294967295, or false"),
        ("[promises]\nstint-ticks = true", "p.toml:2: expected a number of ticks, 1 or more, or false"),
    ] {
        assert_eq!(outcome(toml, None, &[]), format!("{expected}\n"), "{toml}");
    }
}

/// CPUs 1 and 7 of eight are offline, so their topology is unknown.
#[test]
fn tables_have_valid_entries_for_offline_cpus() {
    let mut machine = machine();
    machine.offline = [ids::CpuId(1), ids::CpuId(7)].into_iter().collect();
    machine.topology.places[1] = Place { core: 4, llc: 0, node: 0 };
    machine.topology.places[7] = Place { core: 5, llc: 1, node: 1 };
    machine.topology.capacities[7] = 512;
    machine.validate().unwrap();
    let of = |name: &str| match Source::find(name).unwrap().of(&machine) {
        Constant::Array(values) => values.into_iter().map(integer).collect(),
        constant => vec![integer(constant)],
    };
    assert_eq!((of("cpus"), of("online-cpus"), of("cores"), of("llcs")), (vec![8], vec![6], vec![6], vec![2]));
    assert_eq!(of("cpus-by-place"), [0, 4, 5, 2, 6, 3]);
    assert_eq!(of("place-of-cpu"), [0, 0, 3, 5, 1, 2, 4, 3]);
    assert_eq!(of("llc-begin-of-cpu"), [0, 0, 3, 3, 0, 0, 3, 3]);
    assert_eq!(of("llc-end-of-cpu"), [3, 3, 6, 6, 3, 3, 6, 6]);
    assert_eq!(of("core-of-cpu"), [0, 4, 2, 3, 0, 1, 2, 5]);
    let known: Vec<usize> =
        (0..8).filter(|&cpu| of("cpus-by-place")[of("place-of-cpu")[cpu] as usize] == cpu as i128).collect();
    assert_eq!(known, [0, 2, 3, 4, 5, 6]);
    assert_eq!(of("capacity-of-cpu"), [1024, 1024, 1024, 1024, 1024, 1024, 1024, 512]);

    // All CPUs of node 1 are offline: each then has a cache of its own, which contains no place.
    let gone = machine.without(&"1-3,6-7".parse().unwrap());
    let of = |name: &str| match Source::find(name).unwrap().of(&gone) {
        Constant::Array(values) => values.into_iter().map(integer).collect(),
        constant => vec![integer(constant)],
    };
    assert_eq!((of("nodes"), of("cpus-by-place")), (vec![2], vec![0, 4, 5]));
    assert_eq!(of("place-of-cpu"), [0, 0, 0, 0, 1, 2, 0, 0]);
    assert_eq!((of("llc-begin-of-cpu"), of("llc-end-of-cpu")), (vec![0; 8], vec![3; 8]));
}

/// Caches 0 and 1 are in node 0, cache 2 is in node 1; the cores are CPUs 0 and 4, 1 and 5, 2 and 6, 3 and 7. CPU 7
/// is offline.
#[test]
fn tables_by_distance_begin_with_the_nearest() {
    let mut machine = machine();
    for (cpu, place) in machine.topology.places.iter_mut().enumerate() {
        let core = cpu as u32 % 4;
        *place = Place { core, llc: core.saturating_sub(1), node: u32::from(core == 3) };
    }
    machine.offline = [ids::CpuId(7)].into_iter().collect();
    let shown = |name: &str| show(&Source::find(name).unwrap().of(&machine));
    assert_eq!(shown("cpus-by-thread"), "[0, 1, 2, 3, 4, 5, 6]");
    assert_eq!(shown("llc-numbers"), "[0, 1, 2]");
    assert_eq!(shown("llc-mask"), "{0-2}");
    assert_eq!(shown("llc-neighbours"), "[[{1}, {2}], [{0}, {2}], [{0-1}]]");
    assert_eq!(shown("llc-neighbour-counts"), "[[1, 1], [1, 1], [2]]");
    assert_eq!(shown("nearest-llcs"), "[[0, 1, 2], [1, 0, 2], [2, 0, 1]]");
    assert_eq!(shown("nearest-llcs-node-end"), "[2, 2, 1]");
    let Constant::Array(rows) = Source::NearestCpus.of(&machine) else { panic!("expected a table") };
    assert_eq!(show(&rows[0]), "[0, 4, 1, 5, 2, 6, 3]");
    assert_eq!(show(&rows[6]), "[6, 2, 5, 1, 4, 0, 3]");
    assert_eq!(show(&rows[3]), "[3, 2, 6, 1, 5, 4, 0]");
    assert_eq!(shown("nearest-core-end"), "[2, 2, 2, 1, 2, 2, 2, 1]");
    assert_eq!(shown("nearest-llc-end"), "[4, 4, 2, 1, 4, 4, 2, 1]");
    assert_eq!(shown("nearest-node-end"), "[6, 6, 6, 1, 6, 6, 6, 1]");
}

/// Nodes are ordered by the firmware's distances, not by number; each is nearest to itself, and of equal distances
/// the lower number comes first.
#[test]
fn nearest_nodes_are_ordered_by_distance() {
    let mut machine = machine();
    for (cpu, place) in machine.topology.places.iter_mut().enumerate() {
        *place = Place { core: cpu as u32, llc: cpu as u32 / 2, node: cpu as u32 / 2 };
    }
    let distances = vec![vec![10, 22, 16, 16], vec![22, 10, 10, 16], vec![16, 22, 10, 16], vec![16, 22, 16, 10]];
    machine.topology = machine.topology.with_distances(distances);
    let shown = show(&Source::find("nearest-nodes").unwrap().of(&machine));
    assert_eq!(shown, "[[0, 2, 3, 1], [1, 2, 3, 0], [2, 0, 3, 1], [3, 0, 2, 1]]");
}

fn show(constant: &Constant) -> String {
    match constant {
        Constant::Array(values) => format!("[{}]", values.iter().map(show).collect::<Vec<_>>().join(", ")),
        Constant::Mask(mask) => format!("{{{mask}}}"),
        Constant::Integer(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn integer(constant: Constant) -> i128 {
    let Constant::Integer(number) = constant else { panic!("{constant:?}") };
    number
}

#[test]
fn object_without_struct_ops_table_is_refused() {
    let mut object = object();
    object.struct_ops.clear();
    let profile = Profile::from_toml("p.toml", "[ops]\ntimeout_ms = 1").unwrap();
    let error = profile.apply(&mut object, &machine()).unwrap_err();
    assert_eq!(error.to_string(), "p.toml:2: the object has no struct_ops table: it is not a scheduler");
}

#[test]
fn variable_outside_its_section_is_refused() {
    let mut object = object();
    object.variables.get_mut("byte").unwrap().offset = 1000;
    let profile = Profile::from_toml("p.toml", "[rodata]\nbyte = 1").unwrap();
    let error = profile.apply(&mut object, &machine()).unwrap_err();
    assert_eq!(error.to_string(), "p.toml:2: `byte`: is outside its section `.rodata`");
}

#[test]
fn promises_are_read_under_either_table_name() {
    for table in ["promises", "claims"] {
        let text = format!(
            "summary = \"s\"\n[{table}]\nwork-conserving = true\nstarvation-ms = 100\nkey-order = true\n\
             preemption-us = 7\nstint-ticks = 2\nweighted-share-percent = 6\nweighted-share-cpus = 1\n\
             weighted-share-whole = true\n\
             weighted-share-turn-ms = 100\nweighted-share-settles-ms = 200\nweighted-share-by = \"groups\"\n\
             gang-corun-percent = 98\ngang-settles-ms = 1500\n\
             gang-by = \"processes\"\nwindows = true\ncaps = true\ncaps-half-life-ms = 300"
        );
        let profile = Profile::from_toml("p.toml", &text).unwrap();
        let expected = Promises {
            work_conserving: WorkConserving::Yes,
            starvation: Some(Nanos::from_ms(100)),
            weighted_share: Some(WeightedShare {
                percent: 6,
                cpus: 1,
                whole: true,
                turn: Nanos::from_ms(100),
                settles: Nanos::from_ms(200),
                by: Weights::Groups,
            }),
            key_order: true,
            preemption: Some(Nanos::from_us(7)),
            stint_ticks: Some(2),
            corun_percent: Some(98),
            gang_settles: Some(Nanos::from_ms(1_500)),
            gang_by: GangsBy::Processes,
            windows: true,
            caps: true,
            caps_half_life: Some(Nanos::from_ms(300)),
        };
        assert_eq!((profile.summary(), profile.promises()), ("s", expected));
    }
    let of = |text| Profile::from_toml("p.toml", text).unwrap().promises();
    assert_eq!(of("[promises]\nwork-conserving = \"eventually\"").work_conserving, WorkConserving::Eventually);
    let everywhere = Some(WeightedShare::new(6, u32::MAX));
    assert_eq!(of("[promises]\nweighted-share-percent = 6").weighted_share, everywhere);
    assert_eq!(of(""), Promises::default());
}

/// A preset has a description and may override promises.
#[test]
fn presets_have_descriptions_and_promises() {
    let text = "[promises]\nwork-conserving = true\nstarvation-ms = 100\n\
                [presets.plain]\n[presets.nice]\ndoc = \"with care\"\n[presets.nice.promises]\nwork-conserving = false\n\
                [presets.late.promises]\nstarvation-ms = false";
    let profile = Profile::from_toml("p.toml", text).unwrap();
    assert_eq!(profile.described_presets().collect::<Vec<_>>(), [("late", ""), ("nice", "with care"), ("plain", "")]);
    let promises = |preset| {
        let mut profile = profile.clone();
        profile.select(preset, &[]).unwrap();
        (profile.promises().work_conserving, profile.promises().starvation)
    };
    let (yes, no, late) = (WorkConserving::Yes, WorkConserving::No, Some(Nanos::from_ms(100)));
    assert_eq!([promises(None), promises(Some("plain"))], [(yes, late), (yes, late)]);
    assert_eq!([promises(Some("nice")), promises(Some("late"))], [(no, late), (yes, None)]);
    let error = |text| Profile::from_toml("p.toml", text).unwrap_err().to_string();
    assert_eq!(error("[presets.a]\ndoc = 1"), "p.toml:2: expected a string, not integer");
    assert!(error("[presets.a.promises]\nwork = 1").starts_with("p.toml:2: unknown promise `work`"));
}
