// SPDX-License-Identifier: GPL-2.0-only
//! Event logs: for any bytes, the reader does not panic, and a decoded record is encoded back unchanged.

use event_log::{LogReader, Record};

/// Reads the bytes as a log and as a single record.
pub fn run(bytes: &[u8]) {
    if let Ok(mut reader) = LogReader::new(bytes) {
        while let Ok(Some(_)) = reader.read() {}
    }
    if let Ok(record) = Record::decode(bytes) {
        let mut stored = Vec::new();
        record.encode(&mut stored);
        assert_eq!(Record::decode(&stored), Ok(record));
    }
}
