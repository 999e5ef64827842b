//! Ids as Stripe makes them: a prefix and letters and digits that say nothing.

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Where randomness comes from: the platform in the Worker, a counter in tests.
pub trait Ids {
    /// Fills the bytes.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// A random word of letters and digits.
pub fn word(ids: &mut dyn Ids, length: usize) -> String {
    let mut bytes = vec![0; length];
    ids.fill(&mut bytes);
    // 256 is not a multiple of 62: a slight bias, of no consequence for test ids.
    bytes
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
        .map(|byte| char::from(*byte))
        .collect()
}

/// A random UUID, version 4.
pub fn uuid(ids: &mut dyn Ids) -> String {
    let mut bytes = [0; 16];
    ids.fill(&mut bytes);
    let bits = u128::from_be_bytes(bytes) & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// A new id with a prefix such as `pi_`.
pub fn with_prefix(ids: &mut dyn Ids, prefix: &str) -> String {
    format!("{prefix}3S{}", word(ids, 22))
}

/// The ids of tests: the same at every run.
#[derive(Debug, Default)]
pub struct Counted(u64);

impl Ids for Counted {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 += 1;
        for (index, byte) in bytes.iter_mut().rev().enumerate() {
            let shift = u32::try_from(index).unwrap_or(0).saturating_mul(4);
            *byte = u8::try_from(self.0.checked_shr(shift).unwrap_or(0) & 0xf).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_its_version_and_variant() {
        struct Ones;
        impl Ids for Ones {
            fn fill(&mut self, bytes: &mut [u8]) {
                bytes.fill(0xff);
            }
        }
        assert_eq!(uuid(&mut Ones), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(&mut Counted::default()), "00000000-0000-4000-8000-000000000001");
    }
}
