/** Halcyon's version; deliveries send it in `User-Agent`. */
export const VERSION = '0.1.0';
