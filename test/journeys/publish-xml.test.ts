/** A platform that uses XML publishes: one event a request, all of its values texts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';

const { baseUrl, storeId, platformToken, api } = await startTestApp();

const publish = (body: string) =>
  fetch(`${baseUrl}/stores/${storeId}/events`, {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${platformToken}`,
      'Content-Type': 'application/xml',
    },
    body,
  });

test('an event is published in XML, with its embedded resources', async () => {
  const response = await publish(`<?xml version="1.0" encoding="UTF-8"?>
    <resource>
      <event>transaction/created</event>
      <resource>
        <id>7</id><total>12.50</total><note>a &lt; b</note><tags>x</tags><tags>y</tags>
        <_embedded>
          <items><member><name>Brush</name></member></items>
          <customer><id>9</id></customer>
        </_embedded>
      </resource>
    </resource>`);
  assert.equal(response.status, 201, await response.text());
  const read = await api('GET', `/stores/${storeId}/transactions/7?zoom=items,customer`);
  const { _links, _embedded, ...resource } = (await read.json()) as Record<string, unknown>;
  assert.deepEqual(resource, { id: '7', total: '12.50', note: 'a < b', tags: ['x', 'y'] });
  assert.deepEqual(_embedded, { 'svc:items': [{ name: 'Brush' }], 'svc:customer': { id: '9' } });
});

test('repeated members of several events have no name of their own', async () => {
  const event = (id: number) => `<member><event>customer/created</event><resource><id>${id}</id></resource></member>`;
  const response = await publish(`<resource>${event(1)}${event(2)}</resource>`);
  assert.equal(response.status, 200);
  const { _embedded } = (await response.json()) as { _embedded: { 'svc:events': { resource_id: string }[] } };
  assert.deepEqual(
    _embedded['svc:events'].map(({ resource_id }) => resource_id),
    ['1', '2'],
  );
});

test('an embedded representation that the platform marked as such cannot be read', async () => {
  const response = await publish(
    '<resource><event>customer/created</event><resource rel="x"><id>3</id></resource></resource>',
  );
  assert.equal(response.status, 400);
  assert.match(await response.text(), /"field":"resource"/);
});
