//! Sixty-four bytes of JSON at a time: which are quotes, which are escaped, which brackets stand outside of texts.
//!
//! Comparing sixteen bytes costs what comparing one does; the rest is arithmetic on bit masks, one bit a byte. This is how a
//! session is crossed at several bytes a cycle.

use wide::u8x16;

/// How many bytes a block has.
pub(crate) const BLOCK: usize = 64;

/// What has to be known from the block before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carry {
    /// Inside a text.
    pub(crate) in_text: bool,
    /// The next byte is escaped.
    pub(crate) escaped: bool,
}

/// Crosses the first `len` bytes of a block (what follows must be zeros): the carry moves on, and the brackets outside of
/// texts are returned. None, and nothing moves, when a backslash stands outside of texts: that is no JSON, and what it would
/// hide has to be told byte by byte.
#[inline]
pub(crate) fn brackets_outside(block: &[u8; BLOCK], len: usize, carry: &mut Carry) -> Option<u64> {
    let masks = Masks::of(block);
    let in_text_before = if carry.in_text { u64::MAX } else { 0 };
    if masks.quotes == 0 && masks.backslashes == 0 && !carry.escaped {
        return Some(masks.brackets & !in_text_before);
    }
    let (escaped, overflow) = escaped_bits(masks.backslashes, carry.escaped);
    let in_text = prefix_xor(masks.quotes & !escaped) ^ in_text_before;
    if masks.backslashes & !in_text != 0 {
        return None;
    }
    carry.in_text = in_text >> (BLOCK - 1) == 1;
    carry.escaped = if len < BLOCK { escaped >> len & 1 == 1 } else { overflow };
    Some(masks.brackets & !in_text)
}

/// The block at `at`, filled up with zeros, and how many bytes of it there are.
#[inline]
pub(crate) fn block_at(bytes: &[u8], at: usize) -> ([u8; BLOCK], usize) {
    let mut block = [0; BLOCK];
    let rest = &bytes[at..];
    if let Some(whole) = rest.first_chunk::<BLOCK>() {
        return (*whole, BLOCK);
    }
    block[..rest.len()].copy_from_slice(rest);
    (block, rest.len())
}

/// One bit a byte.
struct Masks {
    quotes: u64,
    backslashes: u64,
    brackets: u64,
}

impl Masks {
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let (mut quotes, mut backslashes, mut brackets) = (0, 0, 0);
        for (n, lane) in block.chunks_exact(16).enumerate() {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(lane);
            let bytes = u8x16::from(bytes);
            // `[` and `{`, `]` and `}` differ in one bit.
            let folded = bytes | u8x16::splat(0x20);
            let bracket = folded.simd_eq(u8x16::splat(b'{')) | folded.simd_eq(u8x16::splat(b'}'));
            let shift = 16 * n;
            quotes |= u64::from(bytes.simd_eq(u8x16::splat(b'"')).to_bitmask()) << shift;
            backslashes |= u64::from(bytes.simd_eq(u8x16::splat(b'\\')).to_bitmask()) << shift;
            brackets |= u64::from(bracket.to_bitmask()) << shift;
        }
        Self { quotes, backslashes, brackets }
    }
}

/// The bytes that stand behind an odd run of backslashes, and whether the byte behind the block does. `carry` says whether
/// the block's first byte does.
#[inline]
fn escaped_bits(backslashes: u64, carry: bool) -> (u64, bool) {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    // A backslash that is escaped itself escapes nothing.
    let free = backslashes & !u64::from(carry);
    let follows = free << 1 | u64::from(carry);
    // Adding a run's first bit to the run carries out behind its end; runs that start on odd bits are added, so that what
    // falls on the other parity is behind an odd run.
    let odd_starts = free & !EVEN & !follows;
    let (sum, overflow) = odd_starts.overflowing_add(free);
    let invert = sum << 1;
    ((EVEN ^ invert) & follows, overflow)
}

/// Bit n of the result is the parity of bits 0 to n.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ bits << 32
}

/// Where a run of plain text ends: at a quote, a backslash or a control character.
#[inline]
pub(crate) fn plain_run(bytes: &[u8]) -> usize {
    let mut at = 0;
    for lane in bytes.chunks_exact(16) {
        let mut sixteen = [0; 16];
        sixteen.copy_from_slice(lane);
        let sixteen = u8x16::from(sixteen);
        let control = sixteen.min(u8x16::splat(0x1f)).simd_eq(sixteen);
        let special = sixteen.simd_eq(u8x16::splat(b'"')) | sixteen.simd_eq(u8x16::splat(b'\\')) | control;
        let mask = special.to_bitmask();
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
    }
    let rest = bytes[at..].iter().position(|&b| b < 0x20 || matches!(b, b'"' | b'\\'));
    rest.map_or(bytes.len(), |n| at + n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same byte by byte; none for a backslash outside of texts.
    fn plain(bytes: &[u8]) -> Option<(Vec<usize>, Carry)> {
        let (mut outside, mut carry) = (Vec::new(), Carry::default());
        for (n, &byte) in bytes.iter().enumerate() {
            match byte {
                _ if std::mem::take(&mut carry.escaped) => {}
                b'\\' if !carry.in_text => return None,
                b'\\' => carry.escaped = true,
                b'"' => carry.in_text = !carry.in_text,
                b'{' | b'}' | b'[' | b']' if !carry.in_text => outside.push(n),
                _ => {}
            }
        }
        Some((outside, carry))
    }

    proptest! {
        #[test]
        fn property_blocks_agree_with_bytes(
            bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\"\\\\\\aaaaa".to_vec()), 0..BLOCK * 3),
        ) {
            let mut bytes = bytes;
            bytes.insert(0, b'"');
            let mut carry = Carry::default();
            let mut got = Some(Vec::new());
            let mut at = 0;
            while at < bytes.len() {
                let (block, len) = block_at(&bytes, at);
                let bits = brackets_outside(&block, len, &mut carry);
                got = got.zip(bits).map(|(mut outside, bits): (Vec<usize>, u64)| {
                    outside.extend((0..BLOCK).filter(|n| bits >> n & 1 == 1).map(|n| at + n));
                    outside
                });
                if got.is_none() {
                    break;
                }
                at += len;
            }
            let want = plain(&bytes);
            prop_assert_eq!(got, want.as_ref().map(|(outside, _)| outside.clone()));
            if let Some((_, end)) = want {
                prop_assert_eq!((carry.in_text, carry.escaped), (end.in_text, end.escaped));
            }
        }

        #[test]
        fn property_plain_runs(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let want = bytes.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\').unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes), want);
        }
    }
}
