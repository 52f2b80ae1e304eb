/** The databases that tests copy: migrated, and with the partitions of the days around a time, which a server need not create then. */

/** Of the present. */
export const TEMPLATE = 'halcyon_template';
/** Of `MIDSUMMER`. Other days have one partition for events. */
export const MIDSUMMER_TEMPLATE = 'halcyon_template_midsummer';
export type Template = typeof TEMPLATE | typeof MIDSUMMER_TEMPLATE;

/** The time at which the clocks of tests stand still. */
export const MIDSUMMER = new Date('2026-07-01T10:00:00.000Z');
