// SPDX-License-Identifier: GPL-2.0-only
//! Formatted text: errors, exits, dumps, and `bpf_snprintf`.
//!
//! The formats are those that the kernel accepts from BPF programs: `%c %s %d %i %u %x %X %p` with `l` or `ll`, a
//! width, and the flags `0 + - space`. Anything else is `-EINVAL`, as in the kernel.

use crate::core::{Core, exit_kind};
use bpf_machine::{Context, FaultKind, GuestAddr, Memory};

/// Maximum number of format arguments (`MAX_BPRINTF_VARARGS`).
const MAX_ARGUMENTS: u64 = 12;

/// Size of a formatted line in bytes, including its NUL (`SCX_EXIT_MSG_LEN`; `MAX_BPRINTF_BUF` is the same).
pub(super) const LINE_SIZE: usize = 1024;

/// Maximum number of bytes read from a format, and from a string that `%s` inserts.
const TEXT_LIMIT: u32 = 4096;

pub(super) const EINVAL: i32 = -22;

/// Flags and width of one conversion.
#[derive(Clone, Copy, Default, Debug)]
struct Layout {
    zeroes: bool,
    plus: bool,
    left: bool,
    space: bool,
    width: usize,
}

impl Layout {
    /// Appends `sign` and `digits`, padded to the width.
    fn pad(self, out: &mut String, sign: &str, digits: &str) {
        let fill = self.width.saturating_sub(sign.len() + digits.len());
        let padding = |out: &mut String, with: char| out.extend(std::iter::repeat_n(with, fill));
        if self.left {
            out.extend([sign, digits]);
            padding(out, ' ');
        } else if self.zeroes {
            out.push_str(sign);
            padding(out, '0');
            out.push_str(digits);
        } else {
            padding(out, ' ');
            out.extend([sign, digits]);
        }
    }

    fn text(self, out: &mut String, text: &str) {
        // Strings are never padded with zeros.
        Layout { zeroes: false, ..self }.pad(out, "", text);
    }

    fn signed(self, out: &mut String, value: i64) {
        let sign = match value {
            ..0 => "-",
            _ if self.plus => "+",
            _ if self.space => " ",
            _ => "",
        };
        self.pad(out, sign, &value.unsigned_abs().to_string());
    }
}

/// Formats `args`. Strings for `%s` come from guest memory; an unreadable one is empty. The error is a negative
/// errno.
pub(super) fn format(memory: &Memory, format: &str, args: &[u64]) -> Result<String, i32> {
    let mut out = String::new();
    let mut rest = format;
    let mut args = args.iter().copied();
    while let Some(at) = rest.find('%') {
        plain(&mut out, &rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let layout = read_layout(&mut rest)?;
        let arg = args.next().ok_or(EINVAL)?;
        convert(memory, &mut out, layout, &mut rest, arg)?;
    }
    plain(&mut out, rest)?;
    Ok(out)
}

/// Appends text without conversions. Control characters are rejected; non-ASCII bytes are not.
fn plain(out: &mut String, text: &str) -> Result<(), i32> {
    if text.bytes().any(|byte| byte.is_ascii_control() && !(9..=13).contains(&byte)) {
        return Err(EINVAL);
    }
    out.push_str(text);
    Ok(())
}

fn read_layout(rest: &mut &str) -> Result<Layout, i32> {
    let mut layout = Layout::default();
    while let Some(flag) = rest.chars().next().filter(|flag| "0+- ".contains(*flag)) {
        match flag {
            '0' => layout.zeroes = true,
            '+' => layout.plus = true,
            '-' => layout.left = true,
            _ => layout.space = true,
        }
        *rest = &rest[1..];
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        // A line has 1024 bytes: more padding would not be visible.
        layout.width = rest[..digits].parse::<usize>().map_err(|_| EINVAL)?.min(LINE_SIZE);
        *rest = &rest[digits..];
    }
    Ok(layout)
}

/// Appends one conversion, whose letters are at the start of `rest`.
fn convert(memory: &Memory, out: &mut String, layout: Layout, rest: &mut &str, arg: u64) -> Result<(), i32> {
    let (wide, letter) = match rest.strip_prefix("ll").or_else(|| rest.strip_prefix('l')) {
        Some(after) => (true, after),
        None => (false, *rest),
    };
    let kind = letter.chars().next().ok_or(EINVAL)?;
    *rest = &letter[kind.len_utf8()..];
    let unsigned = if wide { arg } else { arg & 0xffff_ffff };
    match kind {
        'd' | 'i' if wide => layout.signed(out, arg as i64),
        'd' | 'i' => layout.signed(out, (arg as i32).into()),
        'u' => layout.pad(out, "", &unsigned.to_string()),
        'x' => layout.pad(out, "", &format!("{unsigned:x}")),
        'X' => layout.pad(out, "", &format!("{unsigned:X}")),
        'c' if !wide => layout.text(out, &char::from(arg as u8).to_string()),
        's' if !wide => layout.text(out, &memory.c_string(arg, TEXT_LIMIT).unwrap_or_default()),
        'p' if !wide => pointer(memory, out, layout, rest, arg),
        _ => return Err(EINVAL),
    }
    Ok(())
}

/// `%p` and its forms. The kernel hashes addresses to hide them; guest addresses reveal nothing and are the same in
/// every run.
fn pointer(memory: &Memory, out: &mut String, layout: Layout, rest: &mut &str, arg: u64) {
    if let Some(after) = rest.strip_prefix("ks").or_else(|| rest.strip_prefix("us")) {
        *rest = after;
        return layout.text(out, &memory.c_string(arg, TEXT_LIMIT).unwrap_or_default());
    }
    *rest = rest.strip_prefix(['x', 'K', 's', 'S', 'B']).unwrap_or(rest);
    layout.text(out, &format!("{arg:016x}"));
}

/// Truncates a text to `size` bytes including a NUL, at a character boundary.
pub(super) fn cut(text: &mut String, size: usize) {
    let mut len = text.len().min(size.saturating_sub(1));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    text.truncate(len);
}

/// The 64-bit words at `data`.
pub(super) fn arguments(memory: &Memory, data: GuestAddr, size: u64) -> Result<Vec<u64>, FaultKind> {
    if size == 0 {
        return Ok(Vec::new());
    }
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    Ok(memory.bytes(data, size as u32)?.chunks_exact(8).map(word).collect())
}

/// Formats the line of a `scx_bpf_*_bstr` call; returns `None` after reporting an error.
fn line(core: &mut Core, memory: &Memory, fmt: GuestAddr, data: GuestAddr, size: u64) -> Option<String> {
    let size = size as u32 as u64;
    if !size.is_multiple_of(8) || size > MAX_ARGUMENTS * 8 || (size > 0 && data == 0) {
        core.fail(format!("invalid data={data:016x} and data__sz={size}"));
        return None;
    }
    let Ok(args) = arguments(memory, data, size) else {
        core.fail("failed to read data fields (-14)".to_owned());
        return None;
    };
    let text = memory.c_string(fmt, TEXT_LIMIT).map_err(|_| EINVAL).and_then(|fmt| format(memory, &fmt, &args));
    match text {
        Ok(mut text) => {
            cut(&mut text, LINE_SIZE);
            Some(text)
        }
        Err(errno) => {
            core.fail(format!("format preparation failed ({errno})"));
            None
        }
    }
}

/// Implements `scx_bpf_error_bstr(fmt, data, data__sz)`.
pub(super) fn error_bstr(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    if let Some(text) = line(core, cx.memory, a[0], a[1], a[2]) {
        core.error(exit_kind::ERROR_BPF, 0, text);
    }
    Ok(0)
}

/// Implements `scx_bpf_exit_bstr(exit_code, fmt, data, data__sz)`.
pub(super) fn exit_bstr(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    if let Some(text) = line(core, cx.memory, a[1], a[2], a[3]) {
        core.bpf_exit(a[0] as i64, text);
    }
    Ok(0)
}

/// Implements `scx_bpf_dump_bstr(fmt, data, data__sz)`. Any op may link it; the core rejects calls outside of a dump.
pub(super) fn dump_bstr(core: &mut Core, a: [u64; 5], cx: &mut Context<'_>) -> Result<u64, FaultKind> {
    if let Some(text) = line(core, cx.memory, a[0], a[1], a[2]) {
        core.dump(text);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bpf_machine::Access;

    fn memory_with(text: &str) -> (Memory, GuestAddr) {
        let mut memory = Memory::default();
        let region = memory.add_region("text", 64, 1, Access::ReadOnly);
        memory.slot_mut(region, 0)[..text.len()].copy_from_slice(text.as_bytes());
        let addr = memory.addr(region, 0);
        (memory, addr)
    }

    #[test]
    fn bpf_printf_conversions_match_the_kernel() {
        let (memory, name) = memory_with("kworker/0:1");
        let minus_five = -5i64 as u64;
        let cases: &[(&str, &[u64], &str)] = &[
            ("nothing", &[], "nothing"),
            ("100%%", &[], "100%"),
            ("%d %i", &[minus_five, 7], "-5 7"),
            ("%u %x %X", &[minus_five, 0xbeef, 0xbeef], "4294967291 beef BEEF"),
            ("%lld %ld", &[minus_five, 1 << 40], "-5 1099511627776"),
            ("%llu %lx", &[u64::MAX, 1 << 63], "18446744073709551615 8000000000000000"),
            ("[%5d] [%-5d] [%05d]", &[42, 42, 42], "[   42] [42   ] [00042]"),
            ("[%+d] [% d] [%+d]", &[42, 42, minus_five], "[+42] [ 42] [-5]"),
            ("[%06d] [%-06d]", &[minus_five, 42], "[-00005] [42    ]"),
            ("[%016llx]", &[0xabc], "[0000000000000abc]"),
            ("%c%c", &[u64::from(b'o'), u64::from(b'k')], "ok"),
            ("[%s] [%12s] [%-12s]", &[name, name, name], "[kworker/0:1] [ kworker/0:1] [kworker/0:1 ]"),
            ("[%s]", &[0], "[]"),
            ("%p %px.", &[0xffff_0001_0000_0040, 0x40], "ffff000100000040 0000000000000040."),
            ("%p:%d", &[0x40, 1], "0000000000000040:1"),
            ("p=%pks", &[name], "p=kworker/0:1"),
            ("tab\tline\n", &[], "tab\tline\n"),
            ("µs %d", &[1], "µs 1"),
        ];
        for (text, args, expected) in cases {
            assert_eq!(format(&memory, text, args).as_deref(), Ok(*expected), "{text}");
        }
    }

    #[test]
    fn unsupported_formats_return_einval() {
        let (memory, _) = memory_with("");
        for text in
            ["%", "%d", "%f", "%hd", "%5", "%ls", "%.3d", "%#x", "%n", "bell\u{7}", "%µ", "%999999999999999999999d"]
        {
            let args: &[u64] = if text == "%d" { &[] } else { &[1] };
            assert_eq!(format(&memory, text, args), Err(EINVAL), "{text}");
        }
    }

    #[test]
    fn field_width_is_limited_to_a_line() {
        let (memory, _) = memory_with("");
        assert_eq!(format(&memory, "%4000000000d", &[1]).map(|text| text.len()), Ok(LINE_SIZE));
    }

    #[test]
    fn truncation_does_not_split_utf8_characters() {
        let mut text = "aµb".to_owned();
        cut(&mut text, 3);
        assert_eq!(text, "a");
        cut(&mut text, 0);
        assert_eq!(text, "");
    }
}
