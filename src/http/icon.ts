/** GET /favicon.ico: browsers request it for every page, and log a 404 to the console if it is missing. */
import type { RawHandler } from './route.ts';

const DAY_SECONDS = 86_400;

/** The logo of every page, as an SVG image. */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#0b5fb0" d="M1 8a7 7 0 1 1 7 7H1z"/></svg>';

export const showIcon: RawHandler = async () => ({
  status: 200,
  headers: {
    'Content-Type': 'image/svg+xml',
    'Content-Security-Policy': "default-src 'none'; sandbox",
    'Cache-Control': `public, max-age=${DAY_SECONDS}`,
  },
  body: ICON,
});
