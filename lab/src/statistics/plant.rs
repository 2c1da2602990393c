// SPDX-License-Identifier: GPL-2.0-only
//! Compiles a policy that wastes time in its dispatch, as set by a tunable; the effect on a measure is found by
//! trial.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Compiles the policy with a delay in its dispatch: repeated calls of the helper that reads the clock.
pub fn compile(policy: &str, folder: &Path) -> Result<PathBuf> {
    let path = crate::root().join(format!("policies/{policy}/{policy}.bpf.c"));
    let source = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let include = "#include <weir/scx.bpf.h>\n";
    let delay = "
const volatile u32 plant = 0;
static __noinline void waste(void)
{
	u64 (*clock)(void) = (void *)5; /* bpf_ktime_get_ns */

	/* eight at once, as a simulated loop costs more real time than simulated time */
	for (u32 i = 0; i < plant / 8; i++) {
		clock();
		clock();
		clock();
		clock();
		clock();
		clock();
		clock();
		clock();
	}
	for (u32 i = 0; i < plant % 8; i++)
		clock();
}
";
    let head = source.find(&format!("{policy}_dispatch,")).context("no dispatch in the policy")?;
    let body = head + source[head..].find("{\n").context("no body of dispatch")? + 2;
    let planted = format!("{}\twaste();\n{}", &source[..body], &source[body..]);
    ensure!(planted.matches(include).count() == 1, "{policy} includes its headers in another way");
    let planted = planted.replace(include, &format!("{include}{delay}"));
    let file = folder.join(format!("{policy}.bpf.c"));
    std::fs::write(&file, planted)?;
    let object = folder.join(format!("{policy}.bpf.o"));
    bpf_clang::compile(&file, &object, &[&format!("-Ipolicies/{policy}")])?;
    let profile = crate::root().join(format!("policies/{policy}/profile.toml"));
    let tunable = "\n[tunables.plant]\ntype = \"integer\"\nrange = [0, 4000000000]\ndoc = \"calls of the clock\"\n";
    let profile = std::fs::read_to_string(profile)? + tunable;
    std::fs::write(folder.join(format!("{policy}.toml")), profile)?;
    Ok(object)
}

/// Units of delay that change a measure by a percent of it: `effect` says by how many percent so many units do. `None`
/// if no delay up to a million units changes it by 3 %.
pub fn delay_of_a_percent(effect: &mut dyn FnMut(u64) -> Result<f64>) -> Result<Option<f64>> {
    let mut delay = 64;
    while delay <= 1_000_000 {
        let percent = effect(delay)?;
        if percent > 12.0 && delay > 8 {
            delay = (delay as f64 * 5.0 / percent).ceil() as u64;
            let percent = effect(delay)?;
            return Ok((percent > 0.0).then(|| delay as f64 / percent));
        }
        if percent > 3.0 {
            return Ok(Some(delay as f64 / percent));
        }
        delay *= if percent > 0.3 { 4 } else { 10 };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_delay_of_one_percent_is_found_by_trial_runs() {
        for slope in [0.000_02, 0.01, 0.4, 2.0] {
            let found = delay_of_a_percent(&mut |delay| Ok(delay as f64 * slope)).unwrap().unwrap();
            assert!((found * slope - 1.0).abs() < 0.01, "{found} for {slope}");
        }
        assert_eq!(delay_of_a_percent(&mut |_| Ok(0.1)).unwrap(), None);
    }
}
