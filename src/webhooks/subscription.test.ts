import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventsOf, resourceTypes } from '#catalog/catalog.ts';
import { resolveSubscription, type Subscription } from './subscription.ts';

const none: Subscription = { eventResource: null, events: [] };
const captured: Subscription = { eventResource: 'transaction', events: ['transaction/captured'] };

for (const type of resourceTypes) {
  test(`event_resource ${type} alone means every event of it`, () => {
    const { faults, ...subscription } = resolveSubscription({ eventResource: type }, none);
    assert.deepEqual([subscription, faults], [{ eventResource: type, events: eventsOf(type) }, []]);
  });
}

const cases: [string, Parameters<typeof resolveSubscription>[0], Subscription, Subscription][] = [
  ['neither leaves a new webhook without any', {}, none, none],
  ['neither leaves what is there', {}, captured, captured],
  ['events alone choose their resource', { events: ['transaction/captured'] }, none, captured],
  [
    'events alone replace another resource',
    { events: ['customer/created'] },
    captured,
    { eventResource: 'customer', events: ['customer/created'] },
  ],
  ['both agree', { eventResource: 'transaction', events: ['transaction/captured'] }, none, captured],
  [
    'the resource alone replaces the events',
    { eventResource: 'customer' },
    captured,
    { eventResource: 'customer', events: ['customer/created', 'customer/modified'] },
  ],
  ['clearing the resource clears the events', { eventResource: null }, captured, none],
  ['clearing the events clears the resource', { events: [] }, captured, none],
  ['null beside events is no statement', { eventResource: null, events: ['transaction/captured'] }, none, captured],
  [
    'an empty list beside a resource is no statement',
    { eventResource: 'changelog', events: [] },
    none,
    { eventResource: 'changelog', events: ['changelog/created'] },
  ],
  [
    'an event named twice counts once, in the order given',
    { events: ['transaction/voided', 'transaction/created', 'transaction/voided'] },
    none,
    { eventResource: 'transaction', events: ['transaction/voided', 'transaction/created'] },
  ],
];
for (const [title, wish, present, expected] of cases) {
  test(title, () => assert.deepEqual(resolveSubscription(wish, present), { ...expected, faults: [] }));
}

const faulty: [string, Parameters<typeof resolveSubscription>[0], RegExp[]][] = [
  ['an unknown event is named', { events: ['transaction/exploded'] }, [/"transaction\/exploded"/]],
  ['a refeed is not subscribed to', { events: ['transaction/refeed'] }, [/"transaction\/refeed"/]],
  ['an unknown resource in an event is named', { events: ['cart/created'] }, [/"cart\/created"/]],
  ['names from Object.prototype are unknown', { events: ['constructor/created'] }, [/constructor/]],
  ['each unknown event is named', { events: ['a/b', 'transaction/created', 'c'] }, [/"a\/b"/, /"c"/]],
  ['events of two resources', { events: ['transaction/created', 'customer/created'] }, [/"customer\/created".* same /]],
  [
    'an event of another resource',
    { eventResource: 'customer', events: ['customer/created', 'transaction/created'] },
    [/"transaction\/created".* customer$/],
  ],
];
for (const [title, wish, messages] of faulty) {
  test(title, () => {
    const { faults } = resolveSubscription(wish, none);
    assert.equal(faults.length, messages.length);
    for (const [i, message] of messages.entries()) assert.match(faults[i]?.message ?? '', message);
    assert.deepEqual(new Set(faults.map((fault) => fault.field)), new Set(['events']));
  });
}
