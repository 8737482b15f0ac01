//! Resource versions, as positions of sources.
//!
//! A stored resource has one position: the store's revision, or etcd's. A view reads several sources that arrive on
//! streams of their own, each ordered but not ordered among each other, so no single number of theirs says what a
//! client has seen: the maximum of them hides a late change of one stream under the version of another.
//!
//! A view's resource version is therefore the whole vector of positions `p1 … pn`, flattened into one decimal integer:
//!
//! ```text
//! (p1 + … + pn) · 2^(63·(n-1))  +  p1 · 2^(63·(n-2))  +  …  +  p(n-1)
//! ```
//!
//! Each change raises a position, hence the sum, hence the number. Any replica can take the number apart and see what
//! of each source the client has. For n ≥ 2 it lies above every resource version of a source (below 2^63), so the two
//! are told apart. The price: clients that parse 64 bits (client-go's MutationCache) cannot hold it.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::BigUint;
use smallvec::{SmallVec, smallvec};

/// What a client has seen, as one position per source. Written as a decimal integer.
///
/// The order is that of the integers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(SmallVec<[u64; 2]>);

/// Positions are below 2^63: an etcd revision is a signed 64-bit integer.
const BITS: u32 = 63;

/// A resource version that is no number, or no number of this resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid resource version {0:?}: must be a decimal integer that this server handed out")]
pub struct InvalidResourceVersion(pub String);

impl ResourceVersion {
    /// The version of a resource with a single source.
    pub fn single(position: u64) -> Self {
        Self(smallvec![position])
    }

    /// The version of a view at these positions of its sources.
    pub fn of_positions(positions: &[u64]) -> Self {
        Self(SmallVec::from_slice(positions))
    }

    /// The positions, one per source.
    pub fn positions(&self) -> &[u64] {
        &self.0
    }

    /// The position of a source; 0 where there is none.
    pub fn position(&self, source: usize) -> u64 {
        self.0.get(source).copied().unwrap_or_default()
    }

    /// The later of both in every position.
    pub fn join(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .zip(&other.0)
                .map(|(a, b)| *a.max(b))
                .collect(),
        )
    }

    /// Whether every position is at least the other's: nothing that `other` has seen is missing here.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a >= b)
    }

    /// Reads a version of a resource with so many sources.
    ///
    /// # Errors
    /// When the text is no decimal integer, or none that flattening could have made.
    pub fn parse(text: &str, sources: usize) -> Result<Self, InvalidResourceVersion> {
        let invalid = || InvalidResourceVersion(text.to_owned());
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        if sources <= 1 {
            return text.parse().map(Self::single).map_err(|_| invalid());
        }
        // A bound that no version passes, so that a hostile number costs nothing.
        if text.len() > 20 * (sources + 1) {
            return Err(invalid());
        }
        let mut rest = BigUint::parse_bytes(text.as_bytes(), 10).ok_or_else(invalid)?;
        let mask = BigUint::from((1u64 << BITS) - 1);
        let mut positions: SmallVec<[u64; 2]> = smallvec![0; sources];
        for place in (0..sources - 1).rev() {
            positions[place] = u64::try_from(&rest & &mask).map_err(|_| invalid())?;
            rest >>= BITS;
        }
        let sum = u128::try_from(rest).map_err(|_| invalid())?;
        let others: u128 = positions.iter().map(|p| u128::from(*p)).sum();
        let last = sum.checked_sub(others).ok_or_else(invalid)?;
        positions[sources - 1] = u64::try_from(last)
            .ok()
            .filter(|p| *p < 1 << BITS)
            .ok_or_else(invalid)?;
        Ok(Self(positions))
    }

    fn sum(&self) -> u128 {
        self.0.iter().map(|p| u128::from(*p)).sum()
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("0"),
            [one] => one.fmt(f),
            [first, _] => (self.sum() << BITS | u128::from(*first)).fmt(f),
            several => {
                let mut value = BigUint::from(self.sum());
                for position in &several[..several.len() - 1] {
                    value = (value << BITS) | BigUint::from(*position);
                }
                value.fmt(f)
            }
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_slice())
    }
}

impl Ord for ResourceVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sum()
            .cmp(&other.sum())
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(version: &ResourceVersion) -> BigUint {
        version.to_string().parse().unwrap()
    }

    proptest! {
        #[test]
        fn a_version_is_read_back_as_it_was_written(positions in prop::collection::vec(0u64..1 << 63, 1..5)) {
            let version = ResourceVersion::of_positions(&positions);
            prop_assert_eq!(ResourceVersion::parse(&version.to_string(), positions.len()), Ok(version));
        }

        #[test]
        fn raising_any_position_raises_the_number(
            positions in prop::collection::vec(0u64..1 << 62, 2..5), at in 0usize..5, by in 1u64..1 << 61,
        ) {
            let before = ResourceVersion::of_positions(&positions);
            let mut raised = positions.clone();
            let at = at % raised.len();
            raised[at] += by;
            let after = ResourceVersion::of_positions(&raised);
            prop_assert!(number(&after) > number(&before));
            prop_assert!(after > before);
        }

        #[test]
        fn the_order_is_that_of_the_numbers(
            a in prop::collection::vec(0u64..1 << 63, 3..4), b in prop::collection::vec(0u64..1 << 63, 3..4),
        ) {
            let (a, b) = (ResourceVersion::of_positions(&a), ResourceVersion::of_positions(&b));
            prop_assert_eq!(a.cmp(&b), number(&a).cmp(&number(&b)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,60}", sources in 1usize..4) {
            let _ = ResourceVersion::parse(&text, sources);
        }
    }

    #[test]
    fn a_view_version_is_above_every_source_version() {
        let version = ResourceVersion::of_positions(&[0, 1]);
        assert!(number(&version) >= BigUint::from(1u64 << 63));
    }

    #[test]
    fn what_flattening_cannot_make_is_refused() {
        for text in ["", "-1", "0x1", "1e3", "1.0", " 1", "9223372036854775807"] {
            // The last one says: the sum is 0, but the first position is not.
            assert!(ResourceVersion::parse(text, 2).is_err(), "{text}");
        }
    }
}
