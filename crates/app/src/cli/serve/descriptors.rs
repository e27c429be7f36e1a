//! The limit of open files, and the connections that it allows.

use crate::command::CommandContext;

/// The most connections of a service.
const MAX_CONNECTIONS: u64 = 4096;
/// Open files for indexes, logs, the store, and libraries.
const RESERVED_FILES: u64 = 128;

/// How many connections may be open next to this many model calls. Raises the limit of
/// open files as far as the system allows.
pub(super) fn connections(cx: &CommandContext, calls: usize) -> usize {
    let limit = rlimit::increase_nofile_limit(u64::MAX).unwrap_or(1024);
    let connections = connections_within(limit, calls as u64);
    if connections < MAX_CONNECTIONS {
        cx.note(format_args!(
            "note: this process may have {limit} files open, so that the service takes {connections} connections at once; \
             `ulimit -n` raises the limit"
        ));
    }
    connections as usize
}

fn connections_within(limit: u64, calls: u64) -> u64 {
    // Each model call, and each search that reads a file, needs one more.
    limit.saturating_sub(RESERVED_FILES + calls).clamp(16, MAX_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_calls_of_models() {
        assert_eq!(connections_within(1 << 20, 320), 4096);
        assert_eq!(connections_within(1024, 320), 576);
        assert_eq!(connections_within(100, 320), 16);
    }
}
