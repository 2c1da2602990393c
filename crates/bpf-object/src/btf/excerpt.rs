// SPDX-License-Identifier: GPL-2.0-only
//! Excerpts: the types that some named types reach. The types of a whole kernel take megabytes, and schedulers use a
//! small part of them.

use super::{Btf, Type};
use std::collections::BTreeMap;

impl Btf {
    /// Returns the structs, unions and enums whose names are `wanted`, and the types that they reach by value or
    /// through at most `pointers` pointers. A struct behind further pointers becomes a forward declaration. Functions
    /// and variables are left out, except for the prototypes of function pointers.
    pub fn excerpt(&self, wanted: &dyn Fn(&str) -> bool, pointers: u32) -> Btf {
        let mut excerpt = Excerpt { from: self, left: vec![None; self.len()] };
        for (id, ty) in self.types() {
            let is_root = ty.is_composite() || matches!(ty, Type::Enum { .. } | Type::Typedef { .. });
            if is_root && !ty.name().is_empty() && wanted(ty.name()) {
                excerpt.reach(id, pointers);
            }
        }
        excerpt.build()
    }

    /// Returns these types without those of which `is_kept` is false; they keep their numbers but lose their names, so
    /// that no lookup finds them. Enumerators are judged by the same function.
    pub fn without(&self, is_kept: &dyn Fn(&str) -> bool) -> Btf {
        let mut types = self.types.clone();
        for ty in types.iter_mut().filter(|ty| ty.is_composite() || matches!(ty, Type::Enum { .. })) {
            let kept = ty.name().is_empty() || is_kept(ty.name());
            match ty {
                Type::Struct { name, .. } | Type::Union { name, .. } if !kept => name.clear(),
                Type::Enum { name, values, .. } => {
                    values.retain(|value| is_kept(&value.name));
                    if !kept {
                        name.clear();
                    }
                }
                _ => {}
            }
        }
        Btf::from_types(types)
    }
}

/// An excerpt under construction.
struct Excerpt<'a> {
    from: &'a Btf,
    /// By type number: how many pointers may still be followed from the type; `None` if it is not part of the excerpt.
    left: Vec<Option<u32>>,
}

impl Excerpt<'_> {
    /// Adds a type and the types that it reaches through at most `left` pointers.
    fn reach(&mut self, id: u32, left: u32) {
        let mut open = vec![(id, left)];
        while let Some((id, left)) = open.pop() {
            let known = &mut self.left[id as usize];
            if id == 0 || known.is_some_and(|known| known >= left) {
                continue;
            }
            *known = Some(left);
            match self.from.type_of(id) {
                Type::Ptr { target } => match left.checked_sub(1) {
                    Some(left) => open.push((*target, left)),
                    None if self.declared(*target).is_none() => open.push((*target, 0)),
                    None => {}
                },
                other => open.extend(other.references().into_iter().map(|id| (id, left))),
            }
        }
    }

    /// The forward declaration that replaces the target of a pointer that is not followed. `None` if the target is
    /// not a struct or union.
    fn declared(&self, target: u32) -> Option<Type> {
        match self.from.resolved(target) {
            Type::Struct { name, .. } => Some(Type::Fwd { name: name.clone(), union: false }),
            Type::Union { name, .. } => Some(Type::Fwd { name: name.clone(), union: true }),
            _ => None,
        }
    }

    /// Renumbers the types.
    fn build(&self) -> Btf {
        let mut numbers = vec![0; self.left.len()];
        let mut types = vec![Type::Void];
        for (id, _) in self.left.iter().enumerate().filter(|(_, left)| left.is_some()) {
            numbers[id] = types.len() as u32;
            types.push(self.from.type_of(id as u32).clone());
        }
        let mut declarations = BTreeMap::new();
        let mut added = Vec::new();
        let first_added = types.len() as u32;
        for ty in &mut types {
            if let Type::Ptr { target } = ty
                && numbers[*target as usize] == 0
                && let Some(declaration) = self.declared(*target)
            {
                // Another pointer may have led to the struct, without the modifiers of this one.
                let known = numbers[self.from.resolve(*target) as usize];
                if known != 0 {
                    *target = known;
                    continue;
                }
                // An anonymous struct cannot be declared: the pointer becomes one to `void`.
                let key = (declaration.name().to_owned(), declaration.kind() as u32, is_union(&declaration));
                *target = match key.0.is_empty() {
                    true => 0,
                    false => *declarations.entry(key).or_insert_with(|| {
                        added.push(declaration);
                        first_added + added.len() as u32 - 1
                    }),
                };
                continue;
            }
            ty.renumber(&|id| numbers[id as usize]);
        }
        types.extend(added);
        Btf::from_types(types)
    }
}

fn is_union(declaration: &Type) -> bool {
    matches!(declaration, Type::Fwd { union: true, .. })
}
