/** "Events": which events a webhook receives. */
import assert from 'node:assert/strict';
import { selfOf, type Row, type World } from '../row.ts';

async function publish({ server, api }: World, action = 'created') {
  const { body } = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const event = { event: `transaction/${action}`, resource: { id: 1, total_order: 10 } };
  const token = String(body['access_token']);
  return api('POST', `/stores/${server.alpha}/events`, { token, body: event });
}

const deliveriesOf = async ({ api }: World, path: string): Promise<number> =>
  Number((await api('GET', `${path}/statuses`)).body['total_items']);

const url = 'http://127.0.0.1:9/';

export const events: Row[] = [
  {
    row: 'A webhook pushes data to its url when events of its event_resource occur',
    holds: async (world) => {
      const webhook = selfOf(await world.create({ url, event_resource: 'transaction' }));
      const other = selfOf(await world.create({ url, event_resource: 'customer' }));
      assert.equal((await publish(world)).status, 201);
      assert.deepEqual([await deliveriesOf(world, webhook), await deliveriesOf(world, other)], [1, 0]);
    },
  },
  {
    row: 'events: the actions it is sent for',
    holds: async (world) => {
      const webhook = selfOf(await world.create({ url, events: ['transaction/captured'] }));
      await publish(world, 'created');
      assert.equal(await deliveriesOf(world, webhook), 0);
      await publish(world, 'captured');
      assert.equal(await deliveriesOf(world, webhook), 1);
    },
  },
  {
    row: 'A webhook with is_active = 0 triggers nothing; set to 1, events are triggered again',
    holds: async (world) => {
      const webhook = selfOf(await world.create({ url, event_resource: 'transaction', is_active: '0' }));
      await publish(world);
      assert.equal(await deliveriesOf(world, webhook), 0);
      await world.api('PATCH', webhook, { body: { is_active: '1' } });
      await publish(world);
      assert.equal(await deliveriesOf(world, webhook), 1);
    },
  },
];
