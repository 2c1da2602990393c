// SPDX-License-Identifier: GPL-2.0-only
//! The table `[page_cache]`, and the option `--page-cache`.

use super::devices::{self, MB_S};
use super::effects::NANOSECONDS;
use super::{Source, Table};
use crate::{Machine, MachineError, PageCache};
use toml::de::DeTable;

/// Reads `[page_cache]`.
pub(super) fn read(mut table: Table<'_, '_>) -> Result<PageCache, MachineError> {
    let default = PageCache::DEFAULT;
    let mut integer = |key: &'static str, range, default| match table.optional(key) {
        Some(value) => table.integer(key, value, range),
        None => Ok(default),
    };
    // Up to 1 TiB: a page takes some 100 bytes here.
    let size_mb = integer("size_mb", 1..=1 << 20, default.size_mb)?;
    let background_percent = integer("background_percent", 0..=100, default.background_percent)?;
    let limit_percent = integer("limit_percent", 1..=100, default.limit_percent)?;
    let flush_ms = integer("flush_ms", 1..=3_600_000, default.flush_ms)?;
    let expire_ms = integer("expire_ms", 0..=3_600_000, default.expire_ms)?;
    let overhead_ns = match table.optional("overhead_ns") {
        Some(value) => table.estimate("overhead_ns", value, NANOSECONDS)?,
        None => default.overhead_ns,
    };
    let mb_s = match table.optional("mb_s") {
        Some(value) => table.estimate("mb_s", value, MB_S)?,
        None => default.mb_s,
    };
    if limit_percent < background_percent {
        let problem = "limit_percent is below background_percent; expected at least as much".to_owned();
        return Err(table.source.error(&table.span, problem));
    }
    table.finish()?;
    Ok(PageCache { size_mb, background_percent, limit_percent, flush_ms, expire_ms, overhead_ns, mb_s })
}

impl Machine {
    /// Gives the machine a page cache, `MIB{,key=value}` with the keys of a machine file.
    ///
    /// # Errors
    /// Names the option and what was expected.
    pub fn set_page_cache(&mut self, text: &str) -> Result<(), MachineError> {
        let failed = |problem| MachineError { place: format!("--page-cache {text}"), problem };
        let file = devices::keys(&format!("size_mb={text}")).map_err(failed)?;
        let source = Source { name: "", text: &file };
        let table = DeTable::parse(&file).map_err(|error| failed(error.message().replace('\n', ", ")))?;
        let read = read(Table::new(&source, "[page_cache]", &table)).map_err(|error| failed(error.problem))?;
        self.effects.page_cache = Some(read);
        Ok(())
    }
}
