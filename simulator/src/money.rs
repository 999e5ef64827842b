//! Amounts as text. How many decimals the smallest unit of a currency has is for each provider to say.

/// An amount in major units, without zeros at its end: `12.5`, `1000`.
pub fn major(amount_minor: i64, decimals: u32) -> String {
    let unit = 10i64.pow(decimals);
    let fraction = format!("{:0width$}", (amount_minor % unit).abs(), width = decimals as usize);
    let fraction = if decimals == 0 { "" } else { fraction.trim_end_matches('0') };
    let sign = if amount_minor < 0 { "-" } else { "" };
    let whole = (amount_minor / unit).abs();
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// An amount for a person: `$12.50 usd`, `¥500 jpy`. Providers count some currencies in different units.
pub fn format_minor(amount_minor: i64, currency: &str, decimals: u32) -> String {
    let sign = match currency {
        "usd" | "cad" | "aud" | "nzd" | "sgd" | "hkd" => "$",
        "eur" => "€",
        "gbp" => "£",
        "jpy" => "¥",
        _ => "",
    };
    let (unit, width) = (10i64.pow(decimals), decimals as usize);
    if decimals == 0 {
        format!("{sign}{} {currency}", grouped(amount_minor))
    } else {
        format!("{sign}{}.{:0width$} {currency}", grouped(amount_minor / unit), amount_minor % unit)
    }
}

fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_units_have_no_zeros_at_their_end() {
        assert_eq!(
            [major(1_250, 2), major(1_000, 0), major(100_000, 2), major(-5, 3)],
            ["12.5", "1000", "1000", "-0.005"]
        );
    }
}
