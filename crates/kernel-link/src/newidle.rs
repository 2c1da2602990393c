// SPDX-License-Identifier: GPL-2.0-only
//! How often CPUs of this machine look for tasks elsewhere when they begin to idle (`newidle.bpf.c`).

use crate::LinkError;
use crate::complaints;
use crate::kernel;
use crate::probes::Aligned;
use host::hardware::{Quantiles, Quantity};
use libbpf_rs::{Iter, MapCore, MapFlags, ObjectBuilder};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/newidle.bpf.o")));

/// Of 1024 times, of each CPU that has scheduling domains, the mean of these. Empty if the kernel always looks, as it does
/// before 7.0, but for 6.18.5 and 6.12.65 and what followed them, or if there is one CPU only.
///
/// # Errors
/// If this process is not root, or the kernel lacks BTF or does not take the program.
pub fn ratios() -> Result<Vec<f64>, LinkError> {
    kernel::check()?;
    complaints::listen();
    let open = ObjectBuilder::default().open_memory(&OBJECT.0).map_err(LinkError::bpf("read Weir's own programs"))?;
    let object = open.load().map_err(|source| LinkError::Load { source, log: complaints::last_words() })?;
    let program = object.progs_mut().next().expect("it has one");
    let failed = || LinkError::bpf("look at scheduling domains");
    let link = program.attach().map_err(failed())?;
    let mut tasks = Iter::new(&link).map_err(failed())?;
    std::io::copy(&mut tasks, &mut std::io::sink()).map_err(LinkError::file("look at scheduling domains"))?;
    let looks = object.maps().next().expect("it has one");
    let values = looks.keys().map(|cpu| looks.lookup(&cpu, MapFlags::ANY));
    let values = values.collect::<Result<Vec<_>, _>>().map_err(failed())?;
    Ok(values.iter().flatten().filter_map(|bytes| mean(bytes)).collect())
}

/// Measures `newidle_ratio` of a machine file: mean, minimum and maximum over all CPUs. `None` if the kernel has no such ratio
/// or this process may not read it.
pub fn quantity() -> Option<Quantity> {
    let ratios = ratios().ok().filter(|ratios| !ratios.is_empty())?;
    let what = "probability of a newidle balancing pass, of 1024".to_owned();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let (p10, p90) = ratios.iter().fold((mean, mean), |(low, high), ratio| (low.min(*ratio), high.max(*ratio)));
    Some(Quantity { key: Some("newidle_ratio"), what, value: Quantiles { p10, median: mean, p90 } })
}

/// From `struct looks`.
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
    fn a_cpu_without_domains_says_nothing() {
        let looks = |domains: u32, ratios: u32| [domains, ratios].map(u32::to_ne_bytes).concat();
        assert_eq!(mean(&looks(2, 1536)), Some(768.0));
        assert_eq!(mean(&looks(0, 0)), None);
        assert_eq!(mean(&[0; 4]), None);
    }

    /// A root's test: others may not look.
    #[test]
    fn the_kernels_numbers_are_ratios() {
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
