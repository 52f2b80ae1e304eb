/** GET /favicon.ico: browsers ask for it wherever a page comes from, and tell whoever looks at their console of a 404. */
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
