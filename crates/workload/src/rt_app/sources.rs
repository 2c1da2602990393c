// SPDX-License-Identifier: GPL-2.0-only
//! Extension of rt-app: the section `sources`, and the events that take requests and serve them.
//!
//! ```json
//! {"sources": {"web": {"rate_per_s": 500, "service_us": 800, "draw": "exponential"}},
//!  "tasks": {"worker": {"instance": 8, "take_request": "web", "serve": "web"}}}
//! ```

use super::document::{Fault, Object, near_miss, string, wrong};
use crate::json::{Kind, Member};
use crate::requests::Arrivals;
use crate::{Op, Source, SourceId};
use ids::Nanos;

/// Reads the section `sources`.
pub(super) fn read_sources(sources: &Object<'_>) -> Result<Vec<Source>, Fault> {
    let read: Vec<Source> = sources.members.iter().map(read_source).collect::<Result<_, _>>()?;
    let twice = |index: usize| read[..index].iter().any(|source| source.name == read[index].name);
    match (0..read.len()).find(|&index| twice(index)) {
        Some(index) => {
            let problem = format!("duplicate source {:?}", read[index].name);
            Err(Fault { at: sources.members[index].at, problem })
        }
        None => Ok(read),
    }
}

fn read_source(member: &Member) -> Result<Source, Fault> {
    let mut object = Object::new(format!("source {:?}", member.key), member.at, &member.value)?;
    let rate = object.integer("rate_per_s", 1..=1_000_000)?;
    let times = object.optional("arrivals_us")?;
    let arrivals = match (rate, times) {
        (Some(rate), None) => {
            let gap = Nanos((1e9 / rate as f64).round() as u64);
            match object.string("arrivals")? {
                None | Some((_, "poisson")) => Arrivals::Poisson(gap),
                Some((_, "periodic")) => Arrivals::Periodic(gap),
                Some((at, word)) => {
                    let problem = format!("arrivals is {word:?}; expected \"poisson\" or \"periodic\"");
                    return Err(Fault { at, problem });
                }
            }
        }
        (None, Some(times)) => Arrivals::Times(read_times(times)?),
        _ => {
            let problem =
                format!("{} needs rate_per_s, or arrivals_us with a list of times, and not both", object.what);
            return Err(Fault { at: member.at, problem });
        }
    };
    let service = object.integer("service_us", 0..=i64::from(i32::MAX))?.unwrap_or(0);
    let exponential = match object.string("draw")? {
        None | Some((_, "constant" | "fixed")) => false,
        Some((_, "exponential")) => true,
        Some((at, word)) => {
            return Err(Fault { at, problem: format!("draw is {word:?}; expected \"constant\" or \"exponential\"") });
        }
    };
    let warmup = object.integer("warmup_us", 0..=i64::from(i32::MAX))?.unwrap_or(0);
    object.finish()?;
    let source = Source {
        name: member.key.clone(),
        arrivals,
        start: Nanos::ZERO,
        service: Nanos::from_us(service as u64),
        exponential,
        measured_from: Nanos::from_us(warmup as u64),
    };
    source.check().map_err(|problem| Fault { at: member.at, problem })?;
    Ok(source)
}

fn read_times(member: &Member) -> Result<Vec<Nanos>, Fault> {
    let expected = "a list of times in microseconds, in order";
    let Kind::Array(items) = &member.value.kind else { return Err(wrong("arrivals_us", &member.value, expected)) };
    let time = |item: &crate::json::Value| match item.kind {
        Kind::Integer(us @ 0..=1_000_000_000_000) => Ok(Nanos::from_us(us as u64)),
        _ => Err(wrong("arrivals_us", item, expected)),
    };
    items.iter().map(time).collect()
}

/// Reads an event of a request.
pub(super) fn event(member: &Member, sources: &[Source], make: fn(SourceId) -> Op) -> Result<Op, Fault> {
    let name = string(&member.key, &member.value)?;
    let number = sources.iter().position(|source| source.name == name).ok_or_else(|| {
        let near = near_miss(name, sources.iter().map(|source| source.name.as_str()));
        Fault { at: member.value.at, problem: format!("no source is named {name:?} in the section \"sources\"{near}") }
    })?;
    Ok(make(SourceId(number as u32)))
}
