// SPDX-License-Identifier: GPL-2.0-only
//! Excerpts of a kernel's BTF for the model: existence, offsets, sizes and types of the members that schedulers read.
//! They are facts of the kernel's binary interface; the image is read, not booted.

use super::kernel::KernelArgument;
use anyhow::{Context, Result, bail};
use bpf_object::btf::Btf;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use object::{Object, ObjectSection};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Arguments of `vm btf`.
#[derive(clap::Args)]
pub struct BtfArguments {
    #[command(flatten)]
    kernel: KernelArgument,
    /// Read this file instead: BTF such as /sys/kernel/btf/vmlinux, or an uncompressed kernel
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    file: Option<PathBuf>,
    /// File of the excerpt
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Structs from which schedulers start: arguments of ops, results of kfuncs, per-CPU variables, and structs to which
/// programs cast pointers.
const ROOTS: [&str; 44] = [
    "bpf_cpumask",
    "bpf_perf_event_value",
    "bpf_prog",
    "cfs_rq",
    "cgroup",
    "cgroup_subsys_state",
    "class_rcu_t",
    "cpu_usage_stat",
    "cpufreq_policy",
    "cpuidle_state",
    "cpumask",
    "cred",
    "css_set",
    "dl_rq",
    "file",
    "files_struct",
    "hrtimer",
    "io_context",
    "irq_work",
    "kernel_cpustat",
    "kernfs_node",
    "kthread",
    "mempolicy",
    "mm_struct",
    "nsproxy",
    "numa_group",
    "pid",
    "pid_namespace",
    "pid_type",
    "psi_group",
    "rcu_head",
    "root_domain",
    "rq",
    "rt_rq",
    "sched_domain",
    "sched_domain_shared",
    "sched_group",
    "sched_group_capacity",
    "sighand_struct",
    "signal_struct",
    "task_group",
    "task_struct",
    "user_struct",
    "worker",
];

/// Prefixes of further roots: all of sched_ext, and the iterators that programs hold on their stacks.
const PREFIXES: [&str; 4] = ["bpf_iter_", "sched_", "scx_", "hw_pressure"];

/// Number of pointers that are followed from the roots: `p->signal->tty` needs two.
const POINTERS: u32 = 2;

/// Writes the excerpt.
pub fn btf(arguments: &BtfArguments) -> Result<u8> {
    let path = match &arguments.file {
        Some(path) => path.clone(),
        None => arguments.kernel.kernel.image()?,
    };
    let types = types_of(&path).with_context(|| path.display().to_string())?;
    let wanted = |name: &str| ROOTS.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let excerpt = types.excerpt(&wanted, POINTERS);
    let bytes = excerpt.to_bytes();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&bytes)?;
    let packed = encoder.finish()?;
    fs::write(&arguments.out, &packed).with_context(|| arguments.out.display().to_string())?;
    let (all, kept, size) = (types.len() - 1, excerpt.len() - 1, packed.len());
    println!("{}: {kept} of {all} types, {size} bytes ({} unpacked)", arguments.out.display(), bytes.len());
    Ok(0)
}

/// The types of a kernel image, an uncompressed kernel, or a file of BTF.
fn types_of(path: &Path) -> Result<Btf> {
    let bytes = fs::read(path)?;
    let kernel = match &bytes[..] {
        [0x9f, 0xeb, ..] => return Ok(Btf::parse(&bytes)?),
        [0x7f, b'E', b'L', b'F', ..] => bytes,
        _ => unpacked(&bytes)?,
    };
    let elf = object::File::parse(&*kernel).context("the kernel in it is not an ELF file")?;
    let section = elf.section_by_name(".BTF").context("the kernel has no section .BTF (CONFIG_DEBUG_INFO_BTF)")?;
    Ok(Btf::parse(section.data()?)?)
}

/// The kernel in a bzImage (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).
fn unpacked(image: &[u8]) -> Result<Vec<u8>> {
    const SETUP_SECTS: usize = 0x1f1;
    const MAGIC: usize = 0x202;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    const SECTOR: usize = 512;
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let number = |at: usize| image.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
    if image.get(MAGIC..MAGIC + 4) != Some(b"HdrS") {
        bail!("neither BTF nor an ELF file nor a bzImage");
    }
    let setup = match image[SETUP_SECTS] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let offset = number(PAYLOAD_OFFSET).context("no payload")? as usize + (setup + 1) * SECTOR;
    let length = number(PAYLOAD_LENGTH).context("no payload")? as usize;
    let payload = image.get(offset..offset + length).context("the payload lies outside of the image")?;
    if !payload.starts_with(&ZSTD) {
        bail!("the kernel in it is not compressed with zstd: unpack it, and use --file");
    }
    let mut kernel = Vec::new();
    // The last four bytes are the unpacked size.
    let stream = &payload[..payload.len() - 4];
    zstd::Decoder::new(stream)?.single_frame().read_to_end(&mut kernel)?;
    Ok(kernel)
}
