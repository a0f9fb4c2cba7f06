//! Reproducible random numbers.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A pseudo-random generator with a seed (splitmix64).
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Takes the seed from `MUSTER_CHAOS_SEED` or the clock, and prints how to repeat the run.
    pub fn roll() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
        let seed =
            env::var("MUSTER_CHAOS_SEED").map_or_else(|_| now(), |seed| seed.parse().expect("a number"));
        eprintln!("to repeat this run: MUSTER_CHAOS_SEED={seed}");
        Self { state: seed }
    }

    /// A random number below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// A random one of several values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("it is below a length")]
    }

    /// A random duration below this one.
    pub fn moment(&mut self, before: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(before.as_micros()).expect("a moment in this life")))
    }
}
