/** The settings of an enabled webhook, for tests of lanes without a database. */
import type { ActiveTarget } from '#delivery/attempt/delivery-target.ts';
import { FULL_SHAPE } from '#catalog/resource-document.ts';

export const ACTIVE: ActiveTarget = {
  isActive: true,
  epoch: 0,
  revision: 1,
  storeDomain: 'demo.example.com',
  format: 'json',
  url: new URL('http://127.0.0.1/'),
  origin: 'http://127.0.0.1',
  query: '',
  shape: FULL_SHAPE,
  encryptionKey: null,
  nextEncryptionKey: null,
  rotationEndsAt: null,
  isEncrypted: false,
  headers: {},
  mask: undefined,
  ratePerSecond: null,
  retryProfile: 'hour',
  isOrdered: false,
};
