//! Two hands for many files: opening and reading them is mostly waiting. Knows nothing of sessions.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More would only press on a disk that others use too.
const MOST_HANDS: usize = 2;
/// So few items are not worth a thread.
const FEW: usize = 8;

/// `work` done on each item, the results in the items' order. A panic in `work` is a panic here.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let hands = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_HANDS);
    if hands < 2 || items.len() < FEW {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(n) else { return done };
            done.push((n, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let other = scope.spawn(take);
        let mut done = take();
        match other.join() {
            Ok(more) => done.extend(more),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        done
    });
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        for len in [0, 1, FEW - 1, FEW, 1_000] {
            let items: Vec<usize> = (0..len).collect();
            assert_eq!(map(&items, |n| n * 2), items.iter().map(|n| n * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "item 500")]
    fn a_panic_is_not_swallowed() {
        map(&(0..1_000).collect::<Vec<_>>(), |n| assert!(*n != 500, "item {n}"));
    }
}
