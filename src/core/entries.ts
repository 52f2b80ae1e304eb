/**
 * Returns the options of an LRUCache with room for `count` entries. With `max` instead of `maxSize` it allocates all of them when it
 * is made: 2.8 MB and 6 ms for 100,000.
 */
export const entriesUpTo = (count: number) => ({ maxSize: count, sizeCalculation: () => 1 });
