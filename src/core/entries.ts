/**
 * Returns the options of an LRUCache of at most `count` entries. With `max` instead of `maxSize` it allocates all of them when it is
 * made: 2.8 MB and 6 ms for 100,000.
 */
export function entriesUpTo(count: number) {
  return { maxSize: count, sizeCalculation: () => 1 };
}
