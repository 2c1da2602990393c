// SPDX-License-Identifier: GPL-2.0-only
//! `taskgroup`, as in rt-app, and `taskgroups`, which describes the groups. rt-app ignores the latter, as it has no
//! key for a weight (doc/tutorial.txt and rt-app_taskgroups.c at 55cb0c0).
//!
//! ```json
//! {"taskgroups": {"/a": {"weight": 300}, "/a/x": {"cap_percent": 50, "hard": true, "cpus": "0-3", "uid": 1001}},
//!  "tasks": {"t": {"taskgroup": "/a/x", "run": 1000}}}
//! ```

use super::document::{Fault, Object, wrong};
use crate::groups::{MOST_CAP_PERCENT, MOST_WEIGHT, check_path};
use crate::json::Member;
use crate::{DEFAULT_WEIGHT, Reserved, TaskGroup};
use ids::{CpuSet, MAX_CPUS};

/// Reads the section `taskgroups`.
pub(super) fn read(groups: &Object<'_>) -> Result<Vec<TaskGroup>, Fault> {
    let mut read: Vec<TaskGroup> = Vec::new();
    for member in groups.members {
        check_path(&member.key).map_err(|problem| Fault { at: member.at, problem })?;
        if read.iter().any(|group| group.path == member.key) {
            return Err(Fault { at: member.at, problem: format!("duplicate group {:?}", member.key) });
        }
        read.push(read_group(member)?);
    }
    Ok(read)
}

fn read_group(member: &Member) -> Result<TaskGroup, Fault> {
    let mut object = Object::new(format!("group {:?}", member.key), member.at, &member.value)?;
    let weight = object.integer("weight", 1..=MOST_WEIGHT.into())?.map_or(DEFAULT_WEIGHT, |weight| weight as u32);
    let cap_percent = object.integer("cap_percent", 0..=MOST_CAP_PERCENT.into())?.map(|percent| percent as u32);
    let hard = object.boolean("hard")?;
    if let (Some((at, true)), None) = (hard, cap_percent) {
        return Err(Fault { at, problem: format!("{} is hard, but has no cap_percent", object.what) });
    }
    if let (Some((at, true)), Some(0)) = (hard, cap_percent) {
        let problem =
            format!("{} has a hard cap_percent of 0; expected at least 1, or a cap that is not hard", object.what);
        return Err(Fault { at, problem });
    }
    let group = TaskGroup {
        path: member.key.clone(),
        weight,
        cap_percent,
        hard: hard.is_some_and(|(_, hard)| hard),
        cpus: read_cpus(&mut object)?,
        // The largest number is invalid: system calls interpret it as "unchanged".
        uid: object.integer("uid", 0..=i64::from(u32::MAX) - 1)?.map(|uid| uid as u32),
        job: object.boolean("job")?.is_some_and(|(_, job)| job),
        reserve: object.optional("reserve")?.map(read_reservation).transpose()?,
    };
    object.finish()?;
    Ok(group)
}

/// Reads `{"cpus": 2, "from-ms": 100, "ms": 1000}`.
fn read_reservation(member: &Member) -> Result<Reserved, Fault> {
    let mut object = Object::new("reserve".into(), member.at, &member.value)?;
    let all = || Fault { at: member.at, problem: "reserve has no \"cpus\"".into() };
    let cpus = object.integer("cpus", 1..=MAX_CPUS as i64)?.ok_or_else(all)? as u32;
    let from_ms = object.integer("from-ms", 0..=i64::from(i32::MAX))?.unwrap_or(0) as u32;
    let ms = object.integer("ms", 1..=i64::from(i32::MAX))?.map(|ms| ms as u32);
    object.finish()?;
    Ok(Reserved { cpus, from_ms, ms })
}

fn read_cpus(object: &mut Object<'_>) -> Result<Option<CpuSet>, Fault> {
    let Some(member) = object.optional("cpus")? else { return Ok(None) };
    let list = || wrong("cpus", &member.value, "a list of CPUs such as \"0-3,6\"");
    let text = super::document::string("cpus", &member.value).map_err(|_| list())?;
    let cpus: CpuSet = text.parse().map_err(|_| list())?;
    if cpus.is_empty() { Err(list()) } else { Ok(Some(cpus)) }
}

/// Reads the `taskgroup` of a task; an empty string means none.
pub(super) fn taskgroup(object: &mut Object<'_>) -> Result<Option<String>, Fault> {
    let Some((at, path)) = object.string("taskgroup")?.filter(|(_, path)| !path.is_empty()) else { return Ok(None) };
    check_path(path).map_err(|problem| Fault { at, problem: format!("{}: {problem}", object.what) })?;
    Ok(Some(path.to_owned()))
}
