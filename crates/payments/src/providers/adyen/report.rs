//! Where Adyen's settlement reports are: their names, and the addresses from which they are downloaded.

/// The most characters of a name that is kept.
pub const NAME_MAX: usize = 80;

/// Whether a file of this name is such a report. `settlement_detail_report_batch_4.csv`, or with more in its name.
pub fn is_settlement_report(name: &str) -> bool {
    name.starts_with("settlement_detail_report") && name.ends_with(".csv") && is_plain_name(name)
}

/// Whether our key may be sent to an address for a report: a host of Adyen's, or the one of `own`, which is the simulator's.
pub fn is_adyens(address: &str, own: Option<&str>) -> bool {
    let host = |address: &str| {
        let (host, path) = address.strip_prefix("https://")?.split_once('/')?;
        // Nothing that readers of addresses read in several ways: users, ports, backslashes, white space.
        let is_plain =
            host.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
        (is_plain && path.bytes().all(|b| b.is_ascii_graphic())).then(|| host.to_owned())
    };
    host(address).is_some_and(|found| {
        found.strip_suffix(".adyen.com").is_some_and(|name| !name.is_empty())
            || own.and_then(host) == Some(found)
    })
}

/// Whether a text is a name that can be kept and shown as it is.
pub fn is_plain_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settlement_report_is_known_by_its_name() {
        assert!(is_settlement_report("settlement_detail_report_batch_4.csv"));
        assert!(is_settlement_report("settlement_detail_report_2026-11-20_batch_4.csv"));
        for other in [
            "payments_accounting_report_2026_11_20.csv",
            "settlement_detail_report_batch_4.xlsx",
            "settlement_detail_report/../x.csv",
        ] {
            assert!(!is_settlement_report(other), "{other}");
        }
    }

    #[test]
    fn our_key_goes_to_adyen_alone() {
        for good in [
            "https://ca-test.adyen.com/reports/download/MerchantAccount/Shop/settlement_detail_report_batch_4.csv",
            "https://ca-live.adyen.com/x",
        ] {
            assert!(is_adyens(good, None), "{good}");
        }
        for bad in [
            "http://ca-live.adyen.com/x",
            "https://evil.example/x",
            "https://adyen.com.evil.example/x",
            "https://evil-adyen.com/x",
            "https://evil.example/.adyen.com/x",
            "https://evil.example\\.adyen.com/x",
            "https://evil.example?.adyen.com/x",
            "https://evil.example#.adyen.com/x",
            "https://evil.example:443.adyen.com/x",
            "https://ca-live.adyen.com@evil.example/x",
            "https://ca-live.adyen.com:8443/x",
            "https://ca-live.adyen.com",
            "https://ca-live.adyen.com/x y",
            "https://ca-live.adyen.com/x\n",
            "https://\tca-live.adyen.com/x",
            "https:\\\\ca-live.adyen.com/x",
            "https://.adyen.com/x",
            "https://adyen.simulator/adyen/reports/x.csv",
            "//ca-live.adyen.com/x",
            "",
        ] {
            assert!(!is_adyens(bad, None), "{bad}");
        }
        let own = Some("https://adyen.simulator/adyen/checkout/v71");
        assert!(is_adyens("https://adyen.simulator/adyen/reports/x.csv", own));
        assert!(!is_adyens("https://adyen.simulator.evil.example/x", own));
        assert!(!is_adyens("https://evil.example/x", own));
    }
}
