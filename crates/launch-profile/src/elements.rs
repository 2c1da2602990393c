// SPDX-License-Identifier: GPL-2.0-only
//! Elements of maps that user space writes after it has loaded the object.

use crate::encode::encode;
use crate::{Constant, ProfileError, Setting, near};
use bpf_object::btf::{Btf, Type};
use bpf_object::{LinkedObject, MapDef};
use machine_model::Machine;

/// An element as the profile has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElementSetting {
    pub map: String,
    /// None for a queue or a stack.
    pub key: Option<Setting>,
    pub value: Setting,
    pub place: String,
}

/// An element of a map. In a map that has a value for each CPU all of them get this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapElement {
    /// Name of the map.
    pub map: String,
    /// As many bytes as the map's keys have; none for a queue.
    pub key: Vec<u8>,
    /// As many bytes as its values have.
    pub value: Vec<u8>,
    /// Where the profile asks for it, for errors.
    pub place: String,
}

impl MapElement {
    /// The error for an element that the map does not take, with a positive errno.
    pub fn failed(&self, errno: i32) -> ProfileError {
        ProfileError::new(&self.place, format!("map `{}` does not take the element (errno {errno})", self.map))
    }
}

impl ElementSetting {
    /// Arrays of keys stand for several elements; arrays where the map's values have numbers have an entry for each.
    pub fn expand(
        &self,
        object: &LinkedObject,
        machine: &Machine,
        elements: &mut Vec<MapElement>,
    ) -> Result<(), ProfileError> {
        let Some(map) = object.maps.iter().find(|map| map.initial.is_none() && map.name == self.map) else {
            let known = object.maps.iter().filter(|map| map.initial.is_none()).map(|map| map.name.as_str());
            return Err(ProfileError::new(&self.place, near::unknown("map of the object", &self.map, known)));
        };
        let value = self.value.value.on(machine);
        let keys = match self.key.as_ref().map(|key| key.value.on(machine)) {
            None => vec![],
            Some(Constant::Array(keys)) => keys,
            Some(one) => vec![one],
        };
        let count = match (&value, keys.len()) {
            // The entries of an array go into a queue one after the other.
            (Constant::Array(values), 0 | 1) if !is_array(&object.btf, map.value_type) => values.len(),
            (_, keys) => keys.max(1),
        };
        for index in 0..count {
            let key = match keys.get(index).or(keys.first()) {
                Some(key) => key_bytes(map, key).map_err(|problem| self.error(&self.key, "key", &problem))?,
                None if map.key_size == 0 => vec![],
                None => return Err(ProfileError::new(&self.place, "the element has no `key`")),
            };
            let mut bytes = vec![0; map.value_size as usize];
            let encoded = pick(&object.btf, map.value_type, &value, index).and_then(|value| match map.value_type {
                0 => number_bytes(&value, &mut bytes),
                value_type => encode(&object.btf, value_type, &value, &mut bytes),
            });
            encoded.map_err(|problem| self.error(&Some(self.value.clone()), "value", &problem))?;
            elements.push(MapElement { map: self.map.clone(), key, value: bytes, place: self.place.clone() });
        }
        Ok(())
    }

    fn error(&self, setting: &Option<Setting>, what: &str, problem: &str) -> ProfileError {
        let place = setting.as_ref().map_or(&self.place, |setting| &setting.place);
        ProfileError::new(place, format!("{what} of map `{}`: {problem}", self.map))
    }
}

fn is_array(btf: &Btf, type_id: u32) -> bool {
    matches!(btf.resolved(type_id), Type::Array { .. })
}

/// The value of element number `index`: its entry of an array that stands where the map has something else, and so on
/// for the members of a structure.
fn pick(btf: &Btf, type_id: u32, value: &Constant, index: usize) -> Result<Constant, String> {
    match value {
        Constant::Array(values) if !is_array(btf, type_id) => {
            let entry = values.get(index).cloned();
            entry.ok_or_else(|| format!("{} values, and more keys than that", values.len()))
        }
        Constant::Members(members) => {
            let type_of = |name: &str| btf.member(btf.resolve(type_id), name).map_or(0, |found| found.member.type_id);
            let picked =
                members.iter().map(|(name, value)| Ok((name.clone(), pick(btf, type_of(name), value, index)?)));
            Ok(Constant::Members(picked.collect::<Result<_, String>>()?))
        }
        other => Ok(other.clone()),
    }
}

/// A key is a number or a text of the size that the map has.
fn key_bytes(map: &MapDef, key: &Constant) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; map.key_size as usize];
    number_bytes(key, &mut bytes)?;
    Ok(bytes)
}

fn number_bytes(value: &Constant, bytes: &mut [u8]) -> Result<(), String> {
    let size = bytes.len();
    match value {
        Constant::Integer(number) => {
            let all = number.to_le_bytes();
            let used = size.min(all.len());
            let filler = if *number < 0 { 0xff } else { 0 };
            if all[used..].iter().any(|byte| *byte != filler) {
                return Err(format!("{number} does not fit into {size} bytes"));
            }
            bytes.fill(filler);
            bytes[..used].copy_from_slice(&all[..used]);
            Ok(())
        }
        Constant::Text(text) if text.len() <= size => {
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            Ok(())
        }
        _ => Err(format!("expected a number or a text of at most {size} bytes")),
    }
}
