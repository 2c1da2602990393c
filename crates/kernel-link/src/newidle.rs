// SPDX-License-Identifier: GPL-2.0-only
//! Probability that a CPU of this machine tries newidle balancing when it becomes idle (`newidle.bpf.c`).

use crate::LinkError;
use crate::complaints;
use crate::kernel;
use crate::probes::Aligned;
use host::hardware::{Quantiles, Quantity};
use libbpf_rs::{Iter, MapCore, MapFlags, ObjectBuilder};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/newidle.bpf.o")));

/// The kernel's newidle ratios (out of 1024): for each CPU with scheduling domains, the mean over its domains. Empty
/// if the kernel always balances, as before 7.0 (except 6.18.5, 6.12.65 and later ones of these series), or if there
/// is only one CPU.
///
/// # Errors
/// If this process is not root, the kernel lacks BTF, or it rejects the program.
pub fn ratios() -> Result<Vec<f64>, LinkError> {
    kernel::check()?;
    complaints::listen();
    let open = ObjectBuilder::default().open_memory(&OBJECT.0).map_err(LinkError::bpf("read Weir's own programs"))?;
    let object = open.load().map_err(|source| LinkError::Load { source, log: complaints::last_words() })?;
    let program = object.progs_mut().next().expect("the object has one program");
    let failed = || LinkError::bpf("look at scheduling domains");
    let link = program.attach().map_err(failed())?;
    let mut tasks = Iter::new(&link).map_err(failed())?;
    std::io::copy(&mut tasks, &mut std::io::sink()).map_err(LinkError::file("look at scheduling domains"))?;
    let looks = object.maps().next().expect("the object has one map");
    let values = looks.keys().map(|cpu| looks.lookup(&cpu, MapFlags::ANY));
    let values = values.collect::<Result<Vec<_>, _>>().map_err(failed())?;
    Ok(values.iter().flatten().filter_map(|bytes| mean(bytes)).collect())
}

/// Measures `newidle_ratio` of a machine file: mean, minimum and maximum over all CPUs. `None` if the kernel has no
/// such ratio or this process may not read it.
pub fn quantity() -> Option<Quantity> {
    let ratios = ratios().ok().filter(|ratios| !ratios.is_empty())?;
    let what = "probability of a newidle balancing pass, of 1024".to_owned();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let (p10, p90) = ratios.iter().fold((mean, mean), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    Some(Quantity { key: Some("newidle_ratio"), what, value: Quantiles { p10, median: mean, p90 } })
}

/// Mean newidle ratio of a CPU's scheduling domains, from a `struct looks` (their number and the sum of their
/// ratios). `None` if the CPU has no domains.
fn mean(bytes: &[u8]) -> Option<f64> {
    let ([domains, ratios], []) = bytes.as_chunks::<4>() else { return None };
    let [domains, ratios] = [domains, ratios].map(|word| f64::from(u32::from_ne_bytes(*word)));
    (domains > 0.0).then(|| ratios / domains)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::Struct;

    #[test]
    fn cpu_without_domains_has_no_newidle_ratio() {
        let looks = |domains: u32, ratios: u32| [domains, ratios].map(u32::to_ne_bytes).concat();
        assert_eq!(mean(&looks(2, 1536)), Some(768.0));
        assert_eq!(mean(&looks(0, 0)), None);
        assert_eq!(mean(&[0; 4]), None);
    }

    /// Needs root: other users cannot read the ratios.
    #[test]
    fn kernel_newidle_ratios_are_within_range() {
        match kernel::check() {
            Err(LinkError::Host(_) | LinkError::NoBtf { .. } | LinkError::Unsupported { .. }) => return,
            other => other.unwrap(),
        }
        let ratios = ratios().unwrap();
        let online = host::proc::online().unwrap().len();
        assert!(ratios.len() <= online, "{ratios:?}");
        let btf = Btf::from_vmlinux().unwrap();
        let domain: Struct<'_> = btf.type_by_name("sched_domain").unwrap();
        let has_ratio = domain.iter().any(|member| member.name.is_some_and(|name| name == "newidle_ratio"));
        assert_eq!(!ratios.is_empty(), has_ratio && online > 1, "{ratios:?} of {online} CPUs");
        assert!(ratios.iter().all(|ratio| (0.0..=1024.0).contains(ratio)), "{ratios:?}");
    }
}
