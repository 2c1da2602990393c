// SPDX-License-Identifier: GPL-2.0-only
//! Map elements that user space writes after it has loaded the object.

use crate::encode::encode;
use crate::{Constant, ProfileError, Setting, near, spread};
use bpf_object::btf::{Btf, Type};
use bpf_object::{LinkedObject, MapDef, MapKind};
use machine_model::Machine;

/// A map element as declared in the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElementSetting {
    pub map: String,
    /// None for a queue or a stack.
    pub key: Option<Setting>,
    pub value: Setting,
    /// Arrays have an entry per CPU, not an entry per key.
    pub per_cpu: bool,
    pub place: String,
}

/// A map element to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapElement {
    /// Name of the map.
    pub map: String,
    /// Key, as long as the map's keys; empty for a queue.
    pub key: Vec<u8>,
    /// Values, each as long as the map's values: one, or one per CPU in a per-CPU map.
    pub values: Vec<Vec<u8>>,
    /// Place in the profile, for errors.
    pub place: String,
}

impl MapElement {
    /// The error for an element that the map refuses, with a positive errno.
    pub fn failed(&self, errno: i32) -> ProfileError {
        ProfileError::new(&self.place, format!("map `{}` refuses the element (errno {errno})", self.map))
    }
}

impl ElementSetting {
    /// Expands the declaration to elements: an array of keys declares one element per key; an array in place of a
    /// single value has an entry per key, or per CPU.
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
        let value = self.value.value.on(machine).map_err(|problem| self.error(&self.value, "value", &problem))?;
        let keys = match &self.key {
            None => vec![],
            Some(key) => match key.value.on(machine).map_err(|problem| self.error(key, "key", &problem))? {
                // An empty table of keys declares no element.
                Constant::Array(keys) if keys.is_empty() => return Ok(()),
                Constant::Array(keys) => keys,
                one => vec![one],
            },
        };
        // Without a type, an array for one key is the whole value: consecutive numbers.
        let is_whole = map.value_type == 0 && map.key_size > 0 && keys.len() == 1 && !self.per_cpu;
        let count = match (&value, keys.len()) {
            _ if self.per_cpu => self.check_per_cpu(map, keys.len())?,
            _ if is_whole => 1,
            // The entries of an array are pushed into a queue in order.
            (Constant::Array(values), 0 | 1) if !is_array(&object.btf, map.value_type) => values.len(),
            (_, keys) => keys.max(1),
        };
        for index in 0..count {
            let key = match (keys.get(index).or(keys.first()), &self.key) {
                (Some(key), Some(place)) => {
                    key_bytes(map, key).map_err(|problem| self.error(place, "key", &problem))?
                }
                _ if map.key_size == 0 => vec![],
                _ => return Err(ProfileError::new(&self.place, "the element has no `key`")),
            };
            let indexes = if self.per_cpu { 0..machine.topology.len() } else { index..index + 1 };
            let values = indexes.map(|index| match is_whole {
                true => self.bytes(&object.btf, map, &value),
                false => spread::entry(&object.btf, map.value_type, &value, index)
                    .map_err(|problem| self.error(&self.value, "value", &problem))
                    .and_then(|value| self.bytes(&object.btf, map, &value)),
            });
            let values = values.collect::<Result<_, _>>()?;
            elements.push(MapElement { map: self.map.clone(), key, values, place: self.place.clone() });
        }
        Ok(())
    }

    /// Number of elements of a declaration with a value per CPU.
    fn check_per_cpu(&self, map: &MapDef, keys: usize) -> Result<usize, ProfileError> {
        let problem = match map.kind {
            MapKind::PercpuArray | MapKind::PercpuHash if keys == 1 => return Ok(1),
            MapKind::PercpuArray | MapKind::PercpuHash => "per-CPU values require exactly one `key`".to_owned(),
            _ => format!("map `{}` is not a per-CPU map", self.map),
        };
        Err(ProfileError::new(&self.place, problem))
    }

    fn bytes(&self, btf: &Btf, map: &MapDef, value: &Constant) -> Result<Vec<u8>, ProfileError> {
        let mut bytes = vec![0; map.value_size as usize];
        let encoded = match map.value_type {
            0 => untyped_bytes(value, &mut bytes),
            value_type => encode(btf, value_type, value, &mut bytes),
        };
        encoded.map_err(|problem| self.error(&self.value, "value", &problem))?;
        Ok(bytes)
    }

    fn error(&self, setting: &Setting, what: &str, problem: &str) -> ProfileError {
        ProfileError::new(&setting.place, format!("{what} of map `{}`: {problem}", self.map))
    }
}

fn is_array(btf: &Btf, type_id: u32) -> bool {
    matches!(btf.resolved(type_id), Type::Array { .. })
}

/// Encodes a key: a number, or a string of at most the map's key size.
fn key_bytes(map: &MapDef, key: &Constant) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; map.key_size as usize];
    number_bytes(key, &mut bytes)?;
    Ok(bytes)
}

/// Encodes a value without a type: a number, a string, or an array of numbers that divide the value evenly.
fn untyped_bytes(value: &Constant, bytes: &mut [u8]) -> Result<(), String> {
    let Constant::Array(numbers) = value else { return number_bytes(value, bytes) };
    let size = bytes.len() / numbers.len().max(1);
    if !matches!(size, 1 | 2 | 4 | 8) || size * numbers.len() != bytes.len() {
        let (count, bytes) = (numbers.len(), bytes.len());
        return Err(format!(
            "{count} numbers for {bytes} bytes without a type; expected {bytes} of 1 byte, or fewer of 2, 4 or 8 bytes"
        ));
    }
    numbers.iter().zip(bytes.chunks_mut(size)).try_for_each(|(number, bytes)| number_bytes(number, bytes))
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
        _ => Err(format!("expected a number or a string of at most {size} bytes")),
    }
}
