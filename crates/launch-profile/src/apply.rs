// SPDX-License-Identifier: GPL-2.0-only
//! Application of a profile to a linked object.

use crate::encode::encode;
use crate::{Constant, Profile, ProfileError, Setting, near};
use bpf_object::btf::{Kind, Type};
use bpf_object::{FunctionId, LinkedObject, MapDef, MapId, MemberValue, StructOps, StructOpsMember};
use machine_model::Machine;

/// Bits of `sched_ext_ops.flags` by name (`enum scx_ops_flags` of kernel 7.2; no bit has changed its meaning between
/// versions). A kernel refuses bits that it does not know.
pub const FLAGS: [(&str, u64); 9] = [
    ("KEEP_BUILTIN_IDLE", 1 << 0),
    ("ENQ_LAST", 1 << 1),
    ("ENQ_EXITING", 1 << 2),
    ("SWITCH_PARTIAL", 1 << 3),
    ("ENQ_MIGRATION_DISABLED", 1 << 4),
    ("ALLOW_QUEUED_WAKEUP", 1 << 5),
    ("BUILTIN_IDLE_PER_NODE", 1 << 6),
    ("ALWAYS_ENQ_IMMED", 1 << 7),
    ("HAS_CGROUP_WEIGHT", 1 << 16),
];

impl Profile {
    /// Writes the profile's values for `machine` into the initial data of `object`: sizes, variables, ops flags,
    /// timeout. Programs that it leaves out are not loaded and are removed from the ops table.
    pub fn apply(&self, object: &mut LinkedObject, machine: &Machine) -> Result<(), ProfileError> {
        self.check_names(object)?;
        for (name, place) in &self.left_out {
            leave_out(object, name, place)?;
        }
        for (name, setting) in &self.sizes {
            resize(object, machine, name, setting)?;
        }
        for (name, setting) in &self.capacities {
            set_capacity(object, machine, name, setting)?;
        }
        for (name, setting) in &self.fills {
            fill(object, machine, name, setting)?;
        }
        for (name, setting) in &self.variables {
            set_variable(object, machine, name, setting)?;
        }
        self.apply_ops(object)
    }

    /// Checks all names, including those of presets that are not selected, so that a misspelled name is reported
    /// immediately.
    fn check_names(&self, object: &LinkedObject) -> Result<(), ProfileError> {
        let settings = self.variables.iter().chain(self.presets.values().flat_map(|preset| &preset.settings));
        let settings = settings.map(|(name, setting)| (name, &setting.place));
        let tunables = self.tunables.iter().map(|(name, tunable)| (name, &tunable.place));
        let sizes = self.sizes.iter().map(|(name, setting)| (name, &setting.place));
        for (name, place) in settings.chain(tunables).chain(sizes) {
            if !object.variables.contains_key(name) {
                let known = object.variables.keys().map(String::as_str);
                return Err(ProfileError::new(place, near::unknown("variable of the object", name, known)));
            }
        }
        Ok(())
    }

    fn apply_ops(&self, object: &mut LinkedObject) -> Result<(), ProfileError> {
        let Some((_, place)) = self.flags.first() else {
            return self.apply_timeout(object);
        };
        let bits = |name: &str| FLAGS.iter().find(|(known, _)| *known == name).expect("checked when read").1;
        let flags = self.flags.iter().fold(0, |flags, (name, _)| flags | bits(name));
        set_member(object, "flags", place, |old| old | flags)?;
        self.apply_timeout(object)
    }

    fn apply_timeout(&self, object: &mut LinkedObject) -> Result<(), ProfileError> {
        match &self.timeout_ms {
            Some((timeout_ms, place)) => set_member(object, "timeout_ms", place, |_| u64::from(*timeout_ms)),
            None => Ok(()),
        }
    }
}

/// Disables loading of a program, and clears the ops that refer to it.
fn leave_out(object: &mut LinkedObject, name: &str, place: &str) -> Result<(), ProfileError> {
    let LinkedObject { functions, programs, struct_ops, .. } = object;
    let name_of = |function: FunctionId| functions[function.0 as usize].name.as_str();
    let Some(program) = programs.iter_mut().find(|program| name_of(program.function) == name) else {
        let known: Vec<&str> = programs.iter().map(|program| name_of(program.function)).collect();
        return Err(ProfileError::new(place, near::unknown("program of the object", name, known.into_iter())));
    };
    program.autoload = false;
    let members = struct_ops.iter_mut().flat_map(|table| &mut table.members);
    for member in members.filter(|member| member.value == MemberValue::Function(program.function)) {
        member.value = MemberValue::Number(0);
    }
    Ok(())
}

fn set_variable(
    object: &mut LinkedObject,
    machine: &Machine,
    name: &str,
    setting: &Setting,
) -> Result<(), ProfileError> {
    let fail = |problem: String| ProfileError::new(&setting.place, format!("`{name}`: {problem}"));
    let variable = &object.variables[name];
    let constant = setting.value.on(machine).map_err(&fail)?;
    let map = &mut object.maps[variable.map.0 as usize];
    let size = map.value_size as usize;
    let initial = map.initial.get_or_insert_with(|| vec![0; size]);
    let (begin, end) = (variable.offset as usize, variable.offset as usize + variable.size as usize);
    let Some(bytes) = initial.get_mut(begin..end) else {
        return Err(fail(format!("is outside its section `{}`", map.name)));
    };
    encode(&object.btf, variable.type_id, &constant, bytes).map_err(|problem| match setting.value {
        Constant::Machine(source) => {
            fail(format!("machine value `{}` of `{}`: {problem}", source.name(), machine.name))
        }
        _ => fail(problem),
    })
}

/// Maximum size of a data section in bytes, as in `bpf-object`.
const MAX_SECTION: u64 = 256 << 20;

/// Evaluates a number that user space computes; at least 1.
fn count(machine: &Machine, name: &str, setting: &Setting) -> Result<u32, ProfileError> {
    let number = match setting.value.on(machine) {
        Ok(Constant::Integer(number)) => u32::try_from(number).ok().filter(|number| *number > 0),
        Ok(_) => None,
        Err(problem) => return Err(ProfileError::new(&setting.place, format!("`{name}`: {problem}"))),
    };
    let problem = format!("`{name}`: expected a number from 1 to {}", u32::MAX);
    number.ok_or_else(|| ProfileError::new(&setting.place, problem))
}

/// Sets the number of elements of an array at the end of its section, as `bpf_map__set_value_size` does before load.
fn resize(object: &mut LinkedObject, machine: &Machine, name: &str, setting: &Setting) -> Result<(), ProfileError> {
    let fail = |problem: &str| ProfileError::new(&setting.place, format!("`{name}`: {problem}"));
    let elements = u64::from(count(machine, name, setting)?);
    let variable = &object.variables[name];
    let (map, begin) = (variable.map, variable.offset);
    let Type::Array { element, .. } = object.btf.resolved(variable.type_id) else {
        return Err(fail("only an array can be resized"));
    };
    let last = object.variables.values().filter(|other| other.map == map).all(|other| other.offset <= begin);
    if !last {
        return Err(fail("only the last variable of a section can be resized"));
    }
    let size = object.btf.size_of(*element).and_then(|size| size.checked_mul(elements));
    let end = size.and_then(|size| size.checked_add(begin.into())).filter(|end| *end <= MAX_SECTION);
    let end = end.ok_or_else(|| fail("larger than a section may be"))? as u32;
    let map = &mut object.maps[map.0 as usize];
    map.value_size = end;
    map.initial.get_or_insert_default().resize(end as usize, 0);
    object.variables.get_mut(name).expect("it was found").size = end - begin;
    Ok(())
}

/// Sets `max_entries` of a map, as `bpf_map__set_max_entries` does before load.
fn set_capacity(
    object: &mut LinkedObject,
    machine: &Machine,
    name: &str,
    setting: &Setting,
) -> Result<(), ProfileError> {
    let entries = count(machine, name, setting)?;
    let map = find_map(object, name, setting)?;
    object.maps[map].max_entries = entries;
    Ok(())
}

fn find_map(object: &LinkedObject, name: &str, setting: &Setting) -> Result<usize, ProfileError> {
    let named = |map: &MapDef| map.initial.is_none() && map.name == name;
    object.maps.iter().position(named).ok_or_else(|| {
        let known = object.maps.iter().filter(|map| map.initial.is_none()).map(|map| map.name.as_str());
        ProfileError::new(&setting.place, near::unknown("map of the object", name, known))
    })
}

/// Creates inner maps for the first slots of an array of maps, each as declared. Slots that already have a map keep
/// it.
fn fill(object: &mut LinkedObject, machine: &Machine, name: &str, setting: &Setting) -> Result<(), ProfileError> {
    let fail = |problem: String| ProfileError::new(&setting.place, format!("`{name}`: {problem}"));
    let wanted = count(machine, name, setting)?;
    let outer = find_map(object, name, setting)?;
    let Some(inner) = object.maps[outer].inner.clone() else {
        return Err(fail("only an array of maps can be filled".to_owned()));
    };
    let slots = object.maps[outer].max_entries;
    if wanted > slots {
        return Err(fail(format!("{wanted} maps do not fit into {slots} slots")));
    }
    for slot in 0..wanted {
        if object.maps[outer].inner_maps.iter().all(|(taken, _)| *taken != slot) {
            let id = MapId(object.maps.len() as u32);
            object.maps[outer].inner_maps.push((slot, id));
            object.maps.push((*inner).clone());
        }
    }
    Ok(())
}

/// Changes a numeric member of every struct_ops table.
fn set_member(
    object: &mut LinkedObject,
    member: &str,
    place: &str,
    change: impl Fn(u64) -> u64,
) -> Result<(), ProfileError> {
    if object.struct_ops.is_empty() {
        return Err(ProfileError::new(place, "the object has no struct_ops table: it is not a scheduler"));
    }
    for table in &mut object.struct_ops {
        let order: Vec<&str> = match object.btf.find(&table.type_name, Kind::Struct) {
            Some(type_id) => object.btf.members(type_id).iter().map(|member| member.name.as_str()).collect(),
            None => vec![],
        };
        let Some(position) = order.iter().position(|name| *name == member) else {
            return Err(ProfileError::new(place, format!("`{}` has no member `{member}`", table.type_name)));
        };
        change_number(table, member, position, &order, &change);
    }
    Ok(())
}

/// Members are stored in the order of the struct; those that are zero are omitted.
fn change_number(table: &mut StructOps, member: &str, position: usize, order: &[&str], change: &impl Fn(u64) -> u64) {
    if let Some(found) = table.members.iter_mut().find(|found| found.name == member) {
        if let MemberValue::Number(number) = &mut found.value {
            *number = change(*number);
        }
        return;
    }
    let before = |other: &StructOpsMember| order.iter().position(|name| *name == other.name) < Some(position);
    let at = table.members.iter().take_while(|other| before(other)).count();
    table.members.insert(at, StructOpsMember { name: member.to_owned(), value: MemberValue::Number(change(0)) });
}
