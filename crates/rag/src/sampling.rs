//! Settings of components that a chat model writes for.

/// What is wrong with the settings of any component that a chat model writes for.
pub(crate) fn check_sampling(max_tokens: u32, temperature: f32) -> Result<(), String> {
    if max_tokens == 0 {
        return Err("max_tokens must be at least 1".to_owned());
    }
    if !(0.0..=2.0).contains(&temperature) {
        return Err(format!("temperature is {temperature}, but must be between 0 and 2"));
    }
    Ok(())
}
