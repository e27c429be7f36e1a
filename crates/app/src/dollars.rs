//! Amounts of money as people write them.

/// Parses an amount of money for a cap.
pub fn parse(text: &str) -> Result<f64, String> {
    let amount = text.trim_start_matches('$').parse().ok().filter(|usd: &f64| usd.is_finite() && *usd >= 0.0);
    amount.ok_or_else(|| format!("`{text}` is no amount of dollars: write a number that is not below 0, such as 2.50"))
}
