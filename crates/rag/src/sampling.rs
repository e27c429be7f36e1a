//! Settings of components that a chat model writes for.

use crate::Error;

/// Checks the sampling settings of a component that a chat model writes for.
pub(crate) fn check_sampling(component: &'static str, max_tokens: u32, temperature: f32) -> Result<(), Error> {
    let reason = if max_tokens == 0 {
        "max_tokens must be at least 1".to_owned()
    } else if !(0.0..=2.0).contains(&temperature) {
        format!("temperature is {temperature}, but must be between 0 and 2")
    } else {
        return Ok(());
    };
    Err(Error::Config { component, reason })
}
