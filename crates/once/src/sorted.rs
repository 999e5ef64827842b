//! Sorting, by code that is compiled once: the standard library's takes 5 KB of WebAssembly for each type, and what is collected into a map or a
//! set is sorted by it first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts by a key, which is made once for each. Equal ones stay in their order.
pub fn by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let keys: Vec<K> = items.iter().map(key).collect();
    let order = order(keys.len(), &|one, other| keys.get(one).cmp(&keys.get(other)));
    let mut unsorted: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|at| unsorted.get_mut(at)?.take()));
}

/// The pairs as a map: the last of those with one key.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}

/// The items as a set.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

fn order(length: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn equal_ones_stay_in_their_order() {
        let mut words = vec!["bb", "a", "ccc", "c", "aa", "b"];
        by_key(&mut words, |word| word.len());
        assert_eq!(words, ["a", "c", "b", "bb", "aa", "ccc"]);
        by_key(&mut words, |word| Reverse(*word));
        assert_eq!(words, ["ccc", "c", "bb", "b", "aa", "a"]);
        by_key(&mut Vec::<u8>::new(), |number| *number);
    }

    #[test]
    fn a_map_has_the_last_of_a_key() {
        assert_eq!(map([(2, 'a'), (1, 'b'), (2, 'c')]), BTreeMap::from([(1, 'b'), (2, 'c')]));
        assert_eq!(set([3, 1, 3]), BTreeSet::from([1, 3]));
    }
}
