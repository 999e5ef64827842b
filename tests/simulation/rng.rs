//! The only randomness there is: one number decides a whole history.

/// SplitMix64: small, fast, and the same on every machine.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    pub(crate) fn permille(&mut self, chance: u64) -> bool {
        self.roll() % 1000 < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.roll() % from.len() as u64;
        from[usize::try_from(index).unwrap_or(0)]
    }
}
