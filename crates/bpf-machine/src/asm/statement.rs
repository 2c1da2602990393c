// SPDX-License-Identifier: GPL-2.0-only
//! Parses one instruction.

use bpf_object::Insn;

/// A parsed instruction, with the parts that an [`Insn`] cannot hold.
pub(super) struct Statement {
    pub insn: Insn,
    /// High half of a 64-bit immediate.
    pub second_half: Option<i32>,
    /// A load that cannot fault.
    pub probe: bool,
    pub operand: Operand,
}

/// A name in an instruction.
pub(super) enum Operand {
    None,
    Label { name: String, long: bool },
    Poison(String),
    Map(String),
    Value { name: String, offset: u32 },
    Function(String),
    Kfunc(String),
    KfuncAddress(String),
    Variable(String),
}

type Parsed = Result<Statement, String>;

/// A register: its number, and whether all 64 bits are used.
type Register = (u8, bool);

/// Operators of several characters, longer ones first.
const OPERATORS: [&str; 13] = ["<<=", ">>=", "+=", "-=", "*=", "/=", "|=", "&=", "%=", "^=", "==", "!=", ">="];

/// Assembles a line that is neither a declaration nor a label.
pub(super) fn statement(line: &str) -> Parsed {
    if let Some(text) = line.strip_prefix("poison ") {
        return Ok(with(insn(0x85, 0, 0, 0, 0), Operand::Poison(text.trim().to_owned())));
    }
    let tokens = tokens(line);
    let parsed = match tokens.as_slice() {
        ["insn", fields @ ..] => raw(fields),
        ["exit"] => Ok(plain(insn(0x95, 0, 0, 0, 0))),
        ["goto", label] => Ok(jump(insn(0x05, 0, 0, 0, 0), label, false)),
        ["gotol", label] => Ok(jump(insn(0x06, 0, 0, 0, 0), label, true)),
        ["may_goto", label] => Ok(jump(insn(0xe5, 0, 0, 0, 0), label, false)),
        ["if", condition @ .., "goto", label] => conditional(condition, label),
        ["call", "helper", number] => Ok(plain(insn(0x85, 0, 0, 0, imm32(&[number])?))),
        ["call", "kfunc", name] => Ok(with(insn(0x85, 0, 2, 0, 0), Operand::Kfunc((*name).to_owned()))),
        ["call", name] => Ok(with(insn(0x85, 0, 1, 0, -1), Operand::Function((*name).to_owned()))),
        ["lock", rest @ ..] => locked(rest),
        ["store_release", "(", rest @ .., ",", source, ")"] => ordered(rest, source, true),
        ["*", rest @ ..] => store(rest),
        ["probe", rest @ ..] => assignment(rest).map(|statement| Statement { probe: true, ..statement }),
        tokens => assignment(tokens),
    };
    parsed.map_err(|problem| format!("{problem}: {line}"))
}

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

fn plain(insn: Insn) -> Statement {
    with(insn, Operand::None)
}

fn with(insn: Insn, operand: Operand) -> Statement {
    Statement { insn, second_half: None, probe: false, operand }
}

fn jump(insn: Insn, label: &str, long: bool) -> Statement {
    with(insn, Operand::Label { name: label.to_owned(), long })
}

/// Words and operators of a line.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let len = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            let operator = OPERATORS.iter().chain(&["<="]).find(|operator| rest.starts_with(**operator));
            operator.map_or(first.len_utf8(), |operator| operator.len())
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

fn register(text: &str) -> Option<Register> {
    let number = text.get(1..)?.parse().ok()?;
    match text.get(..1)? {
        "r" => Some((number, true)),
        "w" => Some((number, false)),
        _ => None,
    }
}

fn need_register(text: &str) -> Result<Register, String> {
    register(text).ok_or_else(|| format!("{text} is not a register"))
}

/// A number with an optional sign; a hexadecimal one may use all 64 bits.
fn number(tokens: &[&str]) -> Result<i64, String> {
    let (negative, text) = match tokens {
        ["-", text] => (true, *text),
        ["+", text] | [text] => (false, *text),
        _ => return Err(format!("{} is not a number", tokens.join(" "))),
    };
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).map(|value| value as i64),
        None => text.parse::<u64>().map(|value| value as i64),
    };
    let value = value.map_err(|_| format!("{text} is not a number"))?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

/// A 32-bit immediate; 0x80000000 to 0xffffffff are taken as bit patterns.
fn imm32(tokens: &[&str]) -> Result<i32, String> {
    let value = number(tokens)?;
    let fits = i32::try_from(value).ok().or_else(|| u32::try_from(value).ok().map(|bits| bits as i32));
    fits.ok_or_else(|| format!("{value} has more than 32 bits"))
}

fn offset(tokens: &[&str]) -> Result<i16, String> {
    if tokens.is_empty() {
        return Ok(0);
    }
    i16::try_from(number(tokens)?).map_err(|_| "the offset has more than 16 bits".to_owned())
}

fn raw(fields: &[&str]) -> Parsed {
    let joined: Vec<String> = join_signs(fields);
    let [code, dst, src, off, imm] = joined.as_slice() else { return Err("insn takes five numbers".to_owned()) };
    let value = |text: &String| match text.strip_prefix('-') {
        Some(text) => number(&["-", text]),
        None => number(&[text]),
    };
    let (code, dst, src) = (value(code)? as u8, value(dst)? as u8, value(src)? as u8);
    Ok(plain(insn(code, dst, src, value(off)? as i16, value(imm)? as i32)))
}

fn join_signs(tokens: &[&str]) -> Vec<String> {
    let mut joined = Vec::new();
    let mut sign = "";
    for token in tokens {
        if *token == "-" {
            sign = "-";
        } else {
            joined.push(format!("{sign}{token}"));
            sign = "";
        }
    }
    joined
}

fn conditional(tokens: &[&str], label: &str) -> Parsed {
    let (left, operator, right) = match tokens {
        [left, "s", operator, right @ ..] => (left, format!("s{operator}"), right),
        [left, operator, right @ ..] => (left, (*operator).to_owned(), right),
        _ => return Err("no condition".to_owned()),
    };
    let operation = match operator.as_str() {
        "==" => 0x1,
        ">" => 0x2,
        ">=" => 0x3,
        "&" => 0x4,
        "!=" => 0x5,
        "s>" => 0x6,
        "s>=" => 0x7,
        "<" => 0xa,
        "<=" => 0xb,
        "s<" => 0xc,
        "s<=" => 0xd,
        _ => return Err(format!("{operator} is not a comparison")),
    };
    let (dst, wide) = need_register(left)?;
    let code = operation << 4 | if wide { 5 } else { 6 };
    Ok(jump(by_operand(code, dst, right)?, label, false))
}

/// The register or immediate form of an operation, depending on its right operand.
fn by_operand(code: u8, dst: u8, right: &[&str]) -> Result<Insn, String> {
    Ok(match right {
        [text] if register(text).is_some() => insn(code | 8, dst, need_register(text)?.0, 0, 0),
        _ => insn(code, dst, 0, 0, imm32(right)?),
    })
}

/// Parses `(u32 *)(r1 + 4)`: returns type, base register, offset, and the remaining tokens.
fn place<'t>(tokens: &'t [&'t str]) -> Result<(&'t str, u8, i16, &'t [&'t str]), String> {
    let ["(", kind, "*", ")", "(", base, rest @ ..] = tokens else { return Err("no memory operand".to_owned()) };
    let end = rest.iter().position(|token| *token == ")").ok_or("no closing parenthesis")?;
    Ok((kind, need_register(base)?.0, offset(&rest[..end])?, &rest[end + 1..]))
}

/// Size bits of a memory access.
fn size(kind: &str) -> Result<u8, String> {
    match kind {
        "u8" | "s8" => Ok(0x10),
        "u16" | "s16" => Ok(0x08),
        "u32" | "s32" => Ok(0x00),
        "u64" => Ok(0x18),
        _ => Err(format!("{kind} is not a type")),
    }
}

fn store(tokens: &[&str]) -> Parsed {
    let (kind, base, off, rest) = place(tokens)?;
    let ["=", right @ ..] = rest else { return Err("no = after the memory operand".to_owned()) };
    let code = 0x60 | size(kind)?;
    Ok(plain(match right {
        [text] if register(text).is_some() => insn(code | 3, base, need_register(text)?.0, off, 0),
        _ => insn(code | 2, base, 0, off, imm32(right)?),
    }))
}

fn locked(tokens: &[&str]) -> Parsed {
    let ["*", tokens @ ..] = tokens else { return Err("no memory operand".to_owned()) };
    let (kind, base, off, rest) = place(tokens)?;
    let [operator, source] = rest else { return Err("no operand".to_owned()) };
    let imm = match *operator {
        "+=" => 0x00,
        "|=" => 0x40,
        "&=" => 0x50,
        "^=" => 0xa0,
        _ => return Err(format!("{operator} is not atomic")),
    };
    Ok(plain(insn(0xc3 | size(kind)?, base, need_register(source)?.0, off, imm)))
}

/// Parses `load_acquire` and `store_release`.
fn ordered(tokens: &[&str], other: &str, release: bool) -> Parsed {
    let (kind, base, off, _) = place(tokens)?;
    let (other, code) = (need_register(other)?.0, 0xc3 | size(kind)?);
    Ok(plain(if release { insn(code, base, other, off, 0x110) } else { insn(code, other, base, off, 0x100) }))
}

/// Parses a statement that begins with a register.
fn assignment(tokens: &[&str]) -> Parsed {
    let [left, rest @ ..] = tokens else { return Err("an empty statement".to_owned()) };
    let (dst, wide) = need_register(left)?;
    let class = if wide { 7 } else { 4 };
    match rest {
        ["=", right @ ..] => value(left, (dst, wide), right),
        ["s", operator, right @ ..] => {
            let (operation, off) = match *operator {
                "/=" => (0x3, 1),
                "%=" => (0x9, 1),
                ">>=" => (0xc, 0),
                _ => return Err(format!("s{operator} is not an operation")),
            };
            Ok(plain(Insn { off, ..by_operand(operation << 4 | class, dst, right)? }))
        }
        [operator, right @ ..] => {
            let operations = ["+=", "-=", "*=", "/=", "|=", "&=", "<<=", ">>=", "", "%=", "^="];
            let operation = operations.iter().position(|known| known == operator);
            let operation = operation.ok_or_else(|| format!("{operator} is not an operation"))? as u8;
            Ok(plain(by_operand(operation << 4 | class, dst, right)?))
        }
        [] => Err("a register without an operation".to_owned()),
    }
}

/// Parses `dst = ...`.
fn value(left: &str, (dst, wide): Register, right: &[&str]) -> Parsed {
    let class = if wide { 7 } else { 4 };
    match right {
        ["*", place @ ..] => load(dst, place),
        ["-", text] if *text == left => Ok(plain(insn(0x80 | class, dst, 0, 0, 0))),
        ["(", kind @ ("s8" | "s16" | "s32"), ")", source] => {
            let off = kind[1..].parse().map_err(|_| "bad type".to_owned())?;
            Ok(plain(insn(0xb8 | class, dst, need_register(source)?.0, off, 0)))
        }
        [order, _] if order.len() > 2 && byte_order(order).is_some() => {
            let (code, bits) = byte_order(order).ok_or("bad byte order")?;
            Ok(plain(insn(code, dst, 0, 0, bits)))
        }
        ["addr_space_cast", "(", source, ",", to, ",", from, ")"] => {
            let spaces = imm32(&[to])? << 16 | imm32(&[from])?;
            Ok(plain(insn(0xbf, dst, need_register(source)?.0, 1, spaces)))
        }
        ["load_acquire", "(", place @ .., ")"] => ordered(place, left, false),
        [function, "(", ..] => atomic(function, right),
        ["map", name] => Ok(symbolic(dst, Operand::Map((*name).to_owned()))),
        ["value", name] => Ok(symbolic(dst, Operand::Value { name: (*name).to_owned(), offset: 0 })),
        ["value", name, "+", offset] => {
            let offset = imm32(&[offset])? as u32;
            Ok(symbolic(dst, Operand::Value { name: (*name).to_owned(), offset }))
        }
        ["func", name] => Ok(symbolic(dst, Operand::Function((*name).to_owned()))),
        ["kfunc", name] => Ok(symbolic(dst, Operand::KfuncAddress((*name).to_owned()))),
        ["variable", name] => Ok(symbolic(dst, Operand::Variable((*name).to_owned()))),
        [digits @ .., "ll"] => {
            let value = number(digits)?;
            let low = plain(insn(0x18, dst, 0, 0, value as i32));
            Ok(Statement { second_half: Some((value >> 32) as i32), ..low })
        }
        _ => Ok(plain(by_operand(0xb0 | class, dst, right)?)),
    }
}

fn symbolic(dst: u8, operand: Operand) -> Statement {
    Statement { second_half: Some(0), ..with(insn(0x18, dst, 0, 0, 0), operand) }
}

fn load(dst: u8, tokens: &[&str]) -> Parsed {
    let (kind, base, off, _) = place(tokens)?;
    let mode = if kind.starts_with('s') { 0x81 } else { 0x61 };
    Ok(plain(insn(mode | size(kind)?, dst, base, off, 0)))
}

/// Parses `be16`, `le64`, `bswap32`: returns code and bits.
fn byte_order(text: &str) -> Option<(u8, i32)> {
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let bits = text[digits..].parse().ok()?;
    match &text[..digits] {
        "le" => Some((0xd4, bits)),
        "be" => Some((0xdc, bits)),
        "bswap" => Some((0xd7, bits)),
        _ => None,
    }
}

/// Parses an atomic operation that returns the old value.
fn atomic(function: &str, tokens: &[&str]) -> Parsed {
    let fetch = |imm: i32| match tokens {
        [_, "(", rest @ .., ",", source, ")"] => {
            let (kind, base, off, _) = place(rest)?;
            Ok(plain(insn(0xc3 | size(kind)?, base, need_register(source)?.0, off, imm)))
        }
        _ => Err("no memory operand".to_owned()),
    };
    let exchange = |code: u8, imm: i32| match tokens {
        [_, "(", base, rest @ ..] => {
            let end = rest.iter().position(|token| *token == ",").ok_or("no operand")?;
            let source = rest.iter().rev().nth(1).ok_or("no operand")?;
            let (base, off) = (need_register(base)?.0, offset(&rest[..end])?);
            Ok(plain(insn(code, base, need_register(source)?.0, off, imm)))
        }
        _ => Err("no memory operand".to_owned()),
    };
    match function {
        "atomic_fetch_add" => fetch(0x01),
        "atomic_fetch_or" => fetch(0x41),
        "atomic_fetch_and" => fetch(0x51),
        "atomic_fetch_xor" => fetch(0xa1),
        "xchg_64" => exchange(0xdb, 0xe1),
        "xchg32_32" => exchange(0xc3, 0xe1),
        "cmpxchg_64" => exchange(0xdb, 0xf1),
        "cmpxchg32_32" => exchange(0xc3, 0xf1),
        _ => Err(format!("{function} is not an operation")),
    }
}
