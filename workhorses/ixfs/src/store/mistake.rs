// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mistakes in the order of writes, for tests of the tests: the crash suite must find each of them.

/// A deliberate mistake. Programs use [`Mistake::None`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mistake {
    /// No mistake.
    #[default]
    None,
    /// A commit returns before its batch is flushed.
    AcknowledgeBeforeFlush,
    /// The superblock is written before the snapshot's blocks are flushed.
    SuperblockBeforeData,
    /// The previous snapshot's blocks and log are reused before the new superblock is flushed.
    ReuseBeforeSuperblockFlush,
    /// The new superblock overwrites the current one.
    OneSlot,
    /// A snapshot frees log space from its own start on, although the current superblock still needs the log.
    LogFreedEarly,
    /// Recovery does not verify the checksum of a batch.
    BatchUnverified,
    /// Recovery does not verify the chain that ties a batch to the one before.
    ChainUnverified,
    /// Recovery does not verify pages that the last batch wrote outside the log.
    PagesUnverified,
    /// Batches leave out pages that became holes.
    HolesNotLogged,
    /// Batches leave out removed directory entries.
    RemovalsNotLogged,
    /// A batch covers files but not the directories that name them.
    PathNotLogged,
    /// A snapshot records the end of the log after its tree was frozen, so recovery skips a batch.
    LogStartTooLate,
    /// Blocks that the log refers to are freed when a snapshot is committed.
    LoggedPagesFreed,
    /// A batch begins in the block in which the one before ended.
    BatchSharesBlock,
    /// A failed commit counts as logged, so the next one leaves its changes out.
    FailedCommitForgotten,
    /// A failed snapshot's addresses stay valid although its blocks are free.
    FailedSnapshotKept,
}

impl Mistake {
    /// All mistakes.
    pub const ALL: [Mistake; 16] = [
        Mistake::AcknowledgeBeforeFlush,
        Mistake::SuperblockBeforeData,
        Mistake::ReuseBeforeSuperblockFlush,
        Mistake::OneSlot,
        Mistake::LogFreedEarly,
        Mistake::BatchUnverified,
        Mistake::ChainUnverified,
        Mistake::PagesUnverified,
        Mistake::HolesNotLogged,
        Mistake::RemovalsNotLogged,
        Mistake::PathNotLogged,
        Mistake::LogStartTooLate,
        Mistake::LoggedPagesFreed,
        Mistake::BatchSharesBlock,
        Mistake::FailedCommitForgotten,
        Mistake::FailedSnapshotKept,
    ];
}
