/** GET /favicon.ico: browsers request it for every page, and log a 404 to the console if it is missing. */
import { icon } from '#hypermedia/icon.ts';
import type { RawHandler } from './route.ts';

const DAY_SECONDS = 86_400;

export const showIcon: RawHandler = async () => ({
  status: 200,
  headers: {
    'Content-Type': icon.mediaType,
    'Content-Security-Policy': "default-src 'none'; sandbox",
    'Cache-Control': `public, max-age=${DAY_SECONDS}`,
  },
  body: icon.body,
});
