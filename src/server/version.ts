/** Halcyon's own; what deliveries name in `User-Agent`. */
export const VERSION = '0.1.0';
