// SPDX-License-Identifier: GPL-2.0-only
//! Synthetic workloads included in Weir: the rt-app files of `workloads/`, compiled in.

/// Name and text of each workload, in alphabetical order.
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    macro_rules! files {
        ($($name:literal),* $(,)?) => {
            &[$(($name, include_str!(concat!("../../../workloads/", $name, ".json")))),*]
        };
    }
    files![
        "affinity",
        "hog",
        "hogs",
        "lock",
        "periodic-4",
        "periodic-512",
        "periodic-64",
        "pingpong",
        "preempt-mix",
        "slice-edge",
        "sparse-512",
        "streams",
        "video"
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use std::fmt::Write;

    #[test]
    fn shipped_workloads_load_with_the_expected_tasks() {
        let mut summary = String::new();
        for (name, text) in shipped() {
            let workload = Workload::from_rt_app(&format!("{name}.json"), text).unwrap();
            assert_eq!(workload.name, *name);
            assert!(!workload.is_finite());
            let duration = workload.duration.unwrap();
            writeln!(summary, "{name}: {} tasks, {duration}", workload.tasks.len()).unwrap();
        }
        expect_test::expect![[r#"
            affinity: 6 tasks, 1.00 s
            hog: 1 tasks, 10.0 s
            hogs: 8 tasks, 10.0 s
            lock: 2 tasks, 1.00 s
            periodic-4: 8 tasks, 10.0 s
            periodic-512: 2048 tasks, 10.0 s
            periodic-64: 256 tasks, 10.0 s
            pingpong: 2 tasks, 1.00 s
            preempt-mix: 16 tasks, 5.00 s
            slice-edge: 6 tasks, 2.00 s
            sparse-512: 300 tasks, 1.00 s
            streams: 3 tasks, 10.0 s
            video: 10 tasks, 5.00 s
        "#]]
        .assert_eq(&summary);
        assert!(shipped().is_sorted());
    }
}
