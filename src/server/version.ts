/** Halcyon's version; deliveries send it in `User-Agent`. */
export const VERSION = '0.2.0';
