// SPDX-License-Identifier: GPL-2.0-only
//! Compiler for the C files in `tests/objects`, and a small kernel to link the objects against.

use bpf_object::btf::{Btf, BtfBuilder, Member};
use bpf_object::{Function, LinkedObject, Object, Target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilers to test with: the installed ones of clang 16 to 19.
pub fn compilers() -> Vec<String> {
    let works = |name: &String| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let names = ["clang-19", "clang-18", "clang-17", "clang-16", "clang"].map(String::from);
    let mut found: Vec<String> = names.into_iter().filter(works).collect();
    if found.len() > 1 {
        found.retain(|name| name != "clang");
    }
    assert!(!found.is_empty(), "the tests need clang 16 to 19 with the BPF target in PATH: apt-get install clang-19");
    found
}

/// Compiles `tests/objects/NAME.bpf.c` with `clang` and additional options, and returns the object file.
pub fn compile_with(clang: &str, name: &str, options: &[&str]) -> Vec<u8> {
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects");
    let file = scratch(&format!("{name}-{clang}-{}.o", options.join("").replace(['/', '='], "_")));
    let out = Command::new(clang)
        .args(["-O2", "-g", "-target", "bpf", "-Wall", "-Werror", "-Wno-unused-const-variable", "-I"])
        .arg(&objects)
        .args(options)
        .arg("-c")
        .arg(objects.join(format!("{name}.bpf.c")))
        .arg("-o")
        .arg(&file)
        .output()
        .expect("clang starts");
    assert!(out.status.success(), "{clang} {name}: {}", String::from_utf8_lossy(&out.stderr));
    std::fs::read(file).expect("an object")
}

/// Compiles with the first installed compiler and `-mcpu=v3`.
pub fn compile(name: &str) -> Vec<u8> {
    compile_with(&compilers()[0], name, &["-mcpu=v3"])
}

/// Returns a file path that is unique to the test process and thread.
pub fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    std::fs::create_dir_all(&directory).expect("the directory for objects can be created");
    let thread = format!("{:?}", std::thread::current().id());
    directory.join(format!("{}-{name}", thread.replace(['(', ')'], "")))
}

/// Links objects statically with bpftool. Prints a message and returns `None` if bpftool is not installed.
pub fn bpftool_link(objects: &[Vec<u8>]) -> Option<Vec<u8>> {
    let bpftool = ["bpftool", "/usr/sbin/bpftool"]
        .into_iter()
        .find(|name| Command::new(name).arg("version").output().is_ok_and(|out| out.status.success()));
    let Some(bpftool) = bpftool else {
        eprintln!("bpftool is not installed: statically linked objects are not tested");
        return None;
    };
    let inputs: Vec<PathBuf> = (0..objects.len()).map(|number| scratch(&format!("input{number}.bpf.o"))).collect();
    for (path, bytes) in inputs.iter().zip(objects) {
        std::fs::write(path, bytes).expect("an input file");
    }
    let linked = scratch("linked.bpf.o");
    let out =
        Command::new(bpftool).args(["gen", "object"]).arg(&linked).args(&inputs).output().expect("bpftool starts");
    assert!(out.status.success(), "bpftool: {}", String::from_utf8_lossy(&out.stderr));
    Some(std::fs::read(linked).expect("a linked object"))
}

/// A kernel whose types have other member offsets than those in `test.bpf.h`.
pub struct ToyKernel {
    pub btf: Btf,
    pub kfuncs: Vec<(&'static str, u32)>,
    pub variables: Vec<&'static str>,
    pub kconfig: Vec<(&'static str, u64)>,
}

impl Default for ToyKernel {
    fn default() -> ToyKernel {
        ToyKernel {
            btf: toy_types(),
            kfuncs: vec![
                ("scx_bpf_dsq_insert", 4),
                ("scx_bpf_create_dsq", 2),
                ("scx_bpf_dsq_move_to_local", 2),
                ("scx_bpf_kick_cpu", 2),
            ],
            variables: vec!["runqueues"],
            kconfig: vec![("LINUX_KERNEL_VERSION", 0x70200), ("CONFIG_HZ", 1000), ("CONFIG_PREEMPT_RCU", 1)],
        }
    }
}

impl Target for ToyKernel {
    fn btf(&self) -> &Btf {
        &self.btf
    }
    fn has_kfunc(&self, name: &str, parameters: u32) -> bool {
        self.kfuncs.contains(&(name, parameters))
    }
    fn has_variable(&self, name: &str) -> bool {
        self.variables.contains(&name)
    }
    fn kconfig(&self, name: &str) -> Option<u64> {
        self.kconfig.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

fn toy_types() -> Btf {
    let mut b = BtfBuilder::new();
    let int = b.int("int", 4, true);
    let u16_ = b.int("unsigned short", 2, false);
    let u32_ = b.int("unsigned int", 4, false);
    let u64_ = b.int("unsigned long", 8, false);
    let s64_ = b.int("long", 8, true);
    let char_ = b.int("char", 1, true);
    let words = b.array(u64_, 128);
    let cpumask = b.structure("cpumask", 1024, vec![Member::at("bits", 0, words)]);
    b.typedef("cpumask_t", cpumask);
    let const_mask = b.constant(cpumask);
    let mask_ptr = b.pointer(const_mask);
    let scx = b.structure(
        "sched_ext_entity",
        64,
        vec![
            Member::at("slice", 8, u64_),
            Member::at("dsq_vtime", 16, u64_),
            Member::at("flags", 24, u32_),
            Member::at("weight", 28, u32_),
            Member::at("tid", 32, u64_),
        ],
    );
    let task = b.declare_struct("task_struct");
    let task_ptr = b.pointer(task);
    let comm = b.array(char_, 16);
    let anonymous = b.union("", 8, vec![Member::at("pid", 4, int), Member::at("pad", 0, u64_)]);
    let state = b.structure("toy_state", 8, vec![Member::at("now", 0, int)]);
    b.define(
        task,
        4096,
        vec![
            Member::at("flags", 44, u32_),
            Member::at("", 2048, anonymous),
            Member::at("scx", 1000, scx),
            Member::at("cpus_ptr", 1200, mask_ptr),
            Member::at("migration_disabled", 1216, u16_),
            Member::at("comm", 1300, comm),
            Member::at("real_parent", 1400, task_ptr),
            Member::at("policy", 1500, u64_),
            Member::at("tgid", 1600, s64_),
            Member::bits("low", 1700 * 8 + 3, 5, u32_),
            Member::bits("wide", 1704 * 8 + 30, 9, int),
            Member::at("far", 40_000, u32_),
            Member::at("state", 1800, state),
        ],
    );
    let text = b.pointer(char_);
    b.structure(
        "scx_exit_info",
        64,
        vec![Member::at("exit_code", 8, s64_), Member::at("kind", 16, int), Member::at("reason", 24, text)],
    );
    b.enumeration("scx_flags", &[("SCX_KNOWN", 77), ("SCX_OTHER", 3)]);
    b.enum64("toy_wide", &[("TOY_TOP", 0x1234_5678_9abc_def0)]);
    b.build()
}

/// Parses the object and links it against [`ToyKernel`].
pub fn link(bytes: &[u8]) -> LinkedObject {
    Object::parse(bytes).expect("parses").link(&ToyKernel::default()).expect("links")
}

/// Returns the function with this name.
pub fn function<'a>(object: &'a LinkedObject, name: &str) -> &'a Function {
    object.functions.iter().find(|function| function.name == name).unwrap_or_else(|| panic!("no function {name}"))
}
