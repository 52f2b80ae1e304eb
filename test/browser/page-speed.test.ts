/** The pages of a store with a day of 100,000 deliveries: when they are shown, whether they move, and how large they are. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import type { BrowserContext, Page } from 'playwright-core';
import { seedHistory } from '../../bench/setup/history-seed.ts';
import { startTestApp } from '../setup/app.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';

const DELIVERIES_A_DAY = 100_000;
/** Of several loads, because other programs use the machine, too: more than five only if none was fast enough. */
const LOADS_MIN = 5;
const LOADS_MAX = 25;
const LCP_MS_MAX = 500;
const PAGE_BYTES_MAX = 60 * 1024;
const SCRIPT_BYTES_MAX = 25 * 1024;

const secretKey = randomBytes(32);
const app = 'skip' in needsChromium ? undefined : await startTestApp({ roles: ['serve'], secretKey });
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

/** Fills yesterday and as much of today as has passed. */
async function fill({ sql, storeId }: NonNullable<typeof app>): Promise<number> {
  const [webhook = 0] = await seedHistory(sql, storeId, secretKey, {
    days: 2,
    events: 2 * DELIVERIES_A_DAY,
    deliveriesPerEvent: 1,
    resources: 20_000,
    webhooks: 5,
  });
  return webhook;
}

async function signIn({ baseUrl }: NonNullable<typeof app>): Promise<BrowserContext> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext({ baseURL: baseUrl, viewport: { width: 1280, height: 800 } });
  // Kept by the browser only while an observer asks for them.
  await context.addInitScript(`
    globalThis.paints = []; globalThis.shifts = [];
    new PerformanceObserver((list) => paints.push(...list.getEntries().map((one) => one.startTime))).observe({ type: 'largest-contentful-paint', buffered: true });
    new PerformanceObserver((list) => shifts.push(...list.getEntries().map((one) => one.value))).observe({ type: 'layout-shift', buffered: true });
  `);
  const page = await context.newPage();
  await page.goto('/sign-in');
  await page.getByLabel('E-mail').fill('owner@example.com');
  await page.getByLabel('Password').fill('a long password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL((url) => url.pathname !== '/sign-in');
  await page.close();
  return context;
}

type Measured = { lcpMs: number; responseMs: number; shift: number; htmlBytes: number; scriptBytes: number };

/** Waits until the observer has seen one. `waitForFunction` evaluates its text in the page, which the CSP forbids. */
function untilSeen(page: Page, seen: 'paints' | 'shifts'): Promise<unknown> {
  return page.evaluate(
    `new Promise((resolve) => { const look = () => (${seen}.length > 0 ? resolve() : requestAnimationFrame(look)); look(); })`,
  );
}

/** Loads the page in a new tab, and waits until nothing is painted for two frames. */
async function load(page: Page, path: string): Promise<Measured> {
  const response = await page.goto(path, { waitUntil: 'load' });
  assert.equal(response?.status(), 200, path);
  // The browser reports the first paint later than the end of loading.
  await untilSeen(page, 'paints');
  await page.evaluate(
    'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, 50))))',
  );
  const paints = await page.evaluate<number[]>('paints');
  const shifts = await page.evaluate<number[]>('shifts');
  const responseMs = await page.evaluate<number>(
    '(({ requestStart, responseEnd }) => responseEnd - requestStart)(performance.getEntriesByType("navigation")[0])',
  );
  const scriptBytes = await page.evaluate<number>(
    'performance.getEntriesByType("resource").filter((one) => one.initiatorType === "script").reduce((sum, one) => sum + one.encodedBodySize, 0)',
  );
  return {
    lcpMs: Math.max(...paints),
    responseMs,
    shift: shifts.reduce((sum, one) => sum + one, 0),
    htmlBytes: brotliCompressSync(await (response?.body() ?? Buffer.alloc(0))).length,
    scriptBytes,
  };
}

test(
  'the pages of a store with 100,000 deliveries a day are shown soon, do not move, and are small',
  needsChromium,
  async (t) => {
    assert.ok(app !== undefined);
    const webhook = await fill(app);
    const context = await signIn(app);
    t.after(() => context.close());
    const [pending] = await app.sql<{ id: number }[]>`select id from delivery where webhook_id = ${webhook} limit 1`;
    const [failed] = await app.sql<{ id: number }[]>`
    select id from delivery_done where webhook_id = ${webhook} and state = 'failed' order by id desc limit 1`;
    const store = `/stores/${app.storeId}`;
    const PATHS = [
      `${store}/overview`,
      `${store}/overview?period=7d`,
      `${store}/statuses`,
      `${store}/statuses?status=failed`,
      `${store}/statuses?resource_id=212`,
      `/webhooks/${webhook}`,
      `/webhooks/${webhook}/statuses`,
      `/webhooks/${webhook}/statuses?status=pending`,
      `/webhooks/${webhook}/statuses/${pending?.id}`,
      `/webhooks/${webhook}/statuses/${failed?.id}`,
      `/webhooks/${webhook}/logs`,
      `${store}/changelogs`,
      `${store}/members`,
      `${store}/events`,
      '/account',
      '/stores',
    ];
    await t.test('a page that moves is noticed', async () => {
      const page = await context.newPage();
      await load(page, PATHS[0] ?? '');
      await page.evaluate(
        'document.body.prepend(Object.assign(document.createElement("div"), { innerHTML: "<br>".repeat(9) }))',
      );
      await untilSeen(page, 'shifts');
      await page.close();
    });
    for (const path of PATHS) {
      await t.test(path, async (inner) => {
        const page = await context.newPage();
        const loads: Measured[] = [];
        const fastest = () => Math.min(...loads.map((one) => one.lcpMs));
        while (loads.length < LOADS_MIN || (fastest() >= LCP_MS_MAX && loads.length < LOADS_MAX))
          loads.push(await load(page, path));
        await page.close();
        const lcpMs = fastest();
        const [{ htmlBytes, scriptBytes } = { htmlBytes: 0, scriptBytes: 0 }] = loads;
        const shift = Math.max(...loads.map((one) => one.shift));
        const responseMs = Math.min(...loads.map((one) => one.responseMs));
        inner.diagnostic(
          `${path}: response ${Math.round(responseMs)} ms, LCP ${Math.round(lcpMs)} ms, shift ${shift}, ${htmlBytes} + ${scriptBytes} bytes`,
        );
        assert.ok(lcpMs < LCP_MS_MAX, `${lcpMs} ms`);
        assert.equal(shift, 0);
        assert.ok(scriptBytes <= SCRIPT_BYTES_MAX, `${scriptBytes} bytes of scripts`);
        assert.ok(htmlBytes + scriptBytes <= PAGE_BYTES_MAX, `${htmlBytes + scriptBytes} bytes`);
      });
    }
  },
);
