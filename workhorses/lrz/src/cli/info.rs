// SPDX-License-Identifier: MIT OR Apache-2.0
//! `-i`: lists the contents of an archive.

use super::arguments::Format;
use anyhow::Result;
use lrz::format::{Encryption, Minor};
use lrz::store::ReadAt;
use lrz::unpack::Archive;
use serde_json::json;
use std::io::Write;

/// Prints the archive's format, sizes, encryption, MD5 and blocks, as found in its headers.
pub fn print(name: &str, bytes: &dyn ReadAt, password: Option<&[u8]>, most: u64, format: Format) -> Result<()> {
    let archive = Archive::open(bytes, password, most)?;
    let magic = archive.magic();
    let (mut chunks, mut next, mut end) = (Vec::new(), Some(archive.first_chunk()), 0);
    let mut plain = 0;
    while let Some(start) = next {
        let chunk = archive.chunk(start)?;
        plain += chunk.size.unwrap_or(0);
        (next, end) = (chunk.next, chunk.end);
        if magic.size.is_some_and(|size| plain >= size) {
            next = None;
        }
        chunks.push(chunk);
    }
    let md5: Option<String> =
        archive.recorded_md5(end)?.map(|md5| md5.iter().map(|byte| format!("{byte:02x}")).collect());
    let minor = if magic.minor == Minor::Six { "0.6" } else { "0.7" };
    let encryption = match magic.encryption {
        Encryption::None => "none",
        Encryption::Cbc { .. } => "AES-128-CBC",
        Encryption::Gcm => "AES-256-GCM",
    };
    let blocks = |chunk: &lrz::unpack::Chunk, stream: usize| {
        chunk.streams[stream]
            .iter()
            .map(|block| json!({"backend": block.kind.name(), "packed": block.packed, "plain": block.plain}))
            .collect::<Vec<_>>()
    };
    let all = json!({
        "file": name, "format": minor, "bytes": magic.size, "packed": archive.length(), "encryption": encryption,
        "md5": md5,
        "chunks": chunks.iter().map(|chunk| json!({
            "bytes": chunk.size, "tokens": blocks(chunk, 0), "literals": blocks(chunk, 1),
        })).collect::<Vec<_>>(),
    });
    let mut out = std::io::stdout().lock();
    if format == Format::Json {
        writeln!(out, "{all:#}")?;
        return Ok(());
    }
    writeln!(out, "{name}: lrzip {minor}, {} chunks, {} bytes", chunks.len(), archive.length())?;
    if let Some(size) = magic.size {
        writeln!(out, "  unpacked    {size} bytes, ratio {:.3}", size as f64 / archive.length() as f64)?;
    }
    writeln!(out, "  encryption  {encryption}")?;
    writeln!(out, "  MD5         {}", md5.as_deref().unwrap_or("none"))?;
    for (number, chunk) in chunks.iter().enumerate() {
        for (stream, what) in ["tokens", "literals"].iter().enumerate() {
            for block in &chunk.streams[stream] {
                let (kind, packed, plain) = (block.kind.name(), block.packed, block.plain);
                writeln!(out, "  chunk {number}: {what:8} {plain:>12} -> {packed:>12} {kind}")?;
            }
        }
    }
    Ok(())
}
