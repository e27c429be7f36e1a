//! Why the simulator does not start, or refuses settings.

use std::{io, net::SocketAddr};

/// Why the simulator does not start or does not take a change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings cannot work.
    #[error("{0}")]
    Settings(String),
    /// The address is taken or not allowed.
    #[error("cannot listen on {address}: {source}; choose another `port`, or 0 for any free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}
