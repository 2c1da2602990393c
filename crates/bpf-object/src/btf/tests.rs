// SPDX-License-Identifier: GPL-2.0-only
use super::*;

/// Types of every kind.
fn every_kind() -> Btf {
    let mut b = BtfBuilder::new();
    let int = b.int("int", 4, true);
    let unsigned = b.int("unsigned int", 4, false);
    let flag = b.bool("_Bool");
    let node = b.declare_struct("node");
    let next = b.pointer(node);
    let name = b.array(flag, 16);
    let inner = b.union("", 8, vec![Member::at("low", 0, unsigned), Member::at("both", 0, next)]);
    b.define(node, 48, vec![Member::at("next", 0, next), Member::at("", 8, inner), Member::at("name", 16, name)]);
    b.structure("flags", 4, vec![Member::bits("a", 0, 3, unsigned), Member::bits("b", 3, 29, int)]);
    b.enumeration("tristate", &[("NO", 0), ("YES", 1)]);
    b.enumeration("sign", &[("MINUS", -1), ("PLUS", 1)]);
    b.enum64("wide", &[("TOP", 1 << 63)]);
    b.forward("gone", false);
    b.forward("gone_union", true);
    let alias = b.typedef("alias", node);
    let constant = b.constant(alias);
    let volatile = b.volatile(constant);
    let restrict = b.add(Type::Restrict { target: volatile });
    let tagged = b.add(Type::TypeTag { name: "rcu".into(), target: restrict, attribute: false });
    let proto = b.func_proto(int, &[("node", next), ("", 0)]);
    b.function("work", proto);
    b.add(Type::Func { name: "far".into(), proto, linkage: Linkage::Extern });
    let var = b.add(Type::Var { name: "global".into(), type_id: tagged, linkage: Linkage::Static });
    b.add(Type::Datasec {
        name: ".data".into(),
        size: 48,
        variables: vec![SectionVariable { type_id: var, offset: 8, size: 40 }],
    });
    b.add(Type::Float { name: "double".into(), size: 8 });
    b.add(Type::DeclTag { name: "kptr".into(), target: node, component: -1, attribute: true });
    b.build()
}

#[test]
fn parsing_the_encoded_btf_returns_every_kind_of_type() {
    let btf = every_kind();
    let mut kinds: Vec<Kind> = btf.types().map(|(_, ty)| ty.kind()).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), 20);
    assert_eq!(Btf::parse(&btf.to_bytes()), Ok(btf));
}

#[test]
fn lookup_finds_types_sizes_members_and_enumerators() {
    let btf = every_kind();
    let node = btf.find("node", Kind::Struct).unwrap();
    assert_eq!(btf.find("node", Kind::Union), None);
    assert_eq!(btf.find_all("gon").count(), 0);
    let var = btf.find("global", Kind::Var).unwrap();
    let Type::Var { type_id, .. } = btf.type_of(var) else { panic!() };
    assert_eq!(btf.resolve(*type_id), node);
    assert_eq!(btf.size_of(var), Some(48));
    assert_eq!(btf.size_of(btf.member(node, "name").unwrap().member.type_id), Some(16));
    assert_eq!(btf.member(node, "both").unwrap().byte_offset(), 8);
    assert_eq!(btf.member(node, "absent"), None);
    assert_eq!(btf.size_of(0), None);
    assert_eq!(btf.find_enumerator("MINUS"), Some(u64::MAX));
    assert_eq!(btf.find_enumerator("TOP"), Some(1 << 63));
    assert_eq!(btf.parameters(btf.find("far", Kind::Func).unwrap()).unwrap().len(), 2);
}

#[test]
fn malformed_btf_is_rejected_with_the_reason() {
    let good = every_kind().to_bytes();
    let mut wrong_magic = good.clone();
    wrong_magic[0] = 0;
    let mut wrong_version = good.clone();
    wrong_version[2] = 9;
    let mut short_header = good.clone();
    short_header[4] = 8;
    let mut unknown_kind = good.clone();
    unknown_kind[24 + 7] = 31;
    let mut no_end = good.clone();
    *no_end.last_mut().unwrap() = b'x';
    let mut far_type = good.clone();
    let ptr = good.windows(4).position(|w| w == [0, 0, 0, 2]).unwrap();
    far_type[ptr + 4] = 0xff;
    for (bytes, says) in [
        (&good[..10], "bytes expected"),
        (&wrong_magic[..], "magic number"),
        (&wrong_version[..], "version 1 expected"),
        (&short_header[..], "at least 24 bytes"),
        (&unknown_kind[..], "unknown kind 31"),
        (&no_end[..], "has no end"),
        (&far_type[..], "refers to type 255"),
    ] {
        let error = Btf::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{error:?} does not say {says:?}");
    }
}

#[test]
fn lookups_end_on_cyclic_types() {
    let btf = Btf::from_types(vec![
        Type::Void,
        Type::Const { target: 2 },
        Type::Typedef { name: "loop".into(), target: 1 },
        Type::Array { element: 3, index: 1, count: 2 },
        Type::Struct { name: "self".into(), size: 8, members: vec![Member::at("", 0, 4), Member::at("", 0, 4)] },
    ]);
    assert_eq!(btf.resolve(1), 0);
    assert_eq!(btf.size_of(2), None);
    assert_eq!(btf.size_of(3), None);
    assert_eq!(btf.member(4, "x"), None);
    assert_eq!(Btf::parse(&btf.to_bytes()), Ok(btf));
}
