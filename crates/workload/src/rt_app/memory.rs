// SPDX-License-Identifier: GPL-2.0-only
//! Extension of rt-app: the use of memory of a task. `"footprint": "640K", "dirty": 30, "stream": "2GB/s",
//! "memory-share": 40, "region": "heap", "placement": "interleave"`, or a class: `"memory": "compiler"`. A quantity is a
//! number, a string with a unit, or an array of three: lowest, typical, highest.

use super::document::{Fault, Object, wrong};
use crate::json::{Kind, Value};
use crate::memory::MemoryUse;

/// Reads all keys about memory; `None` if there is none.
pub(super) fn memory(object: &mut Object<'_>) -> Result<Option<Box<MemoryUse>>, Fault> {
    let mut memory = MemoryUse::default();
    let mut at = None;
    for key in MemoryUse::KEYS {
        let Some(member) = object.optional(key)? else { continue };
        at = Some(member.at);
        let text = text(&member.value).ok_or_else(|| wrong(key, &member.value, "a number, a string, or three"))?;
        memory.set(key, &text).map_err(|expected| wrong(key, &member.value, &expected))?;
    }
    let Some(at) = at else { return Ok(None) };
    memory.check().map_err(|problem| Fault { at, problem: format!("{}: {problem}", object.what) })?;
    Ok(Some(Box::new(memory)))
}

/// The value as on a command line.
fn text(value: &Value) -> Option<String> {
    match &value.kind {
        Kind::Integer(number) => Some(number.to_string()),
        Kind::String(text) => Some(text.clone()),
        Kind::Array(items) if items.len() == 3 => Some(items.iter().map(text).collect::<Option<Vec<_>>>()?.join(":")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Limits, Quantity};
    use crate::{Workload, WorkloadError};

    fn read(keys: &str) -> Result<Workload, WorkloadError> {
        Workload::from_rt_app("f.json", &format!("{{\"tasks\": {{\"t\": {{\"run\": 10, {keys} \"loop\": 1}}}}}}"))
    }

    #[test]
    fn memory_keys_of_a_task_are_read() {
        let workload = read(r#""footprint": ["256K", 655360, "1M"], "stream": 1640, "region": "heap","#).unwrap();
        let memory = workload.tasks[0].memory.as_ref().unwrap();
        let limits = Limits { low: 256 << 10, typical: 640 << 10, high: 1 << 20 };
        assert_eq!(memory.limits(Quantity::Footprint), limits);
        assert_eq!(memory.limits(Quantity::Stream), Limits::exactly(1_640));
        assert_eq!(memory.region.as_deref(), Some("heap"));
        assert!(workload.uses_memory() && memory.is_uncertain());
        assert!(!read("").unwrap().uses_memory());
    }

    #[test]
    fn invalid_memory_keys_are_refused_with_their_position() {
        for (keys, problem) in [
            (r#""footprint": "1X","#, "footprint is \"1X\"; expected a size such as 640K"),
            (r#""footprint": [1, 2],"#, "footprint is an array; expected a number, a string, or three"),
            (r#""region": "heap","#, "task \"t\": region \"heap\" has no size"),
            (r#""memory": "c","#, "memory is \"c\"; expected a class of programs"),
        ] {
            let error = read(keys).unwrap_err();
            assert!(error.problem.starts_with(problem) && error.place.starts_with("f.json:1:"), "{error}");
        }
    }
}
