// SPDX-License-Identifier: GPL-2.0-only
//! Puts a profile into a linked object.

use crate::encode::encode;
use crate::{Profile, ProfileError, Setting, Value, near};
use bpf_object::btf::Kind;
use bpf_object::{LinkedObject, MemberValue, StructOps, StructOpsMember};
use machine_model::Machine;

/// Bits of `sched_ext_ops.flags` by name (`enum scx_ops_flags` of kernel 7.2; none of them ever moved). A kernel
/// refuses those that it does not know yet.
pub(crate) const FLAGS: [(&str, u64); 9] = [
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
    /// Puts the profile's values into the initial data of `object` for `machine`: rodata values, ops flags, timeout.
    pub fn apply(&self, object: &mut LinkedObject, machine: &Machine) -> Result<(), ProfileError> {
        self.check_names(object)?;
        for (name, setting) in &self.variables {
            set_variable(object, machine, name, setting)?;
        }
        self.apply_ops(object)
    }

    /// Names are checked even where they are not used, so that a typing error in one preset shows at once.
    fn check_names(&self, object: &LinkedObject) -> Result<(), ProfileError> {
        let settings = self.variables.iter().chain(self.presets.values().flatten());
        let settings = settings.map(|(name, setting)| (name, &setting.place));
        let tunables = self.tunables.iter().map(|(name, tunable)| (name, &tunable.place));
        for (name, place) in settings.chain(tunables) {
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

fn set_variable(
    object: &mut LinkedObject,
    machine: &Machine,
    name: &str,
    setting: &Setting,
) -> Result<(), ProfileError> {
    let fail = |problem: String| ProfileError::new(&setting.place, format!("`{name}`: {problem}"));
    let variable = &object.variables[name];
    let constant = match &setting.value {
        Value::Constant(constant) => constant.clone(),
        Value::Machine(source) => source.of(machine),
    };
    let map = &mut object.maps[variable.map.0 as usize];
    let size = map.value_size as usize;
    let initial = map.initial.get_or_insert_with(|| vec![0; size]);
    let (begin, end) = (variable.offset as usize, variable.offset as usize + variable.size as usize);
    let Some(bytes) = initial.get_mut(begin..end) else {
        return Err(fail(format!("lies outside of its section `{}`", map.name)));
    };
    encode(&object.btf, variable.type_id, &constant, bytes).map_err(|problem| match setting.value {
        Value::Machine(source) => fail(format!("machine value `{}` of `{}`: {problem}", source.name(), machine.name)),
        Value::Constant(_) => fail(problem),
    })
}

/// Changes a number of every struct_ops table.
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

/// Members are kept in the order of the struct, without those that are zero.
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
