/** Another store in the same house, with an app that was let into it alone. */
import { createClient } from '#oauth/clients/clients.ts';
import { grantStoreAccess } from '#oauth/issue.ts';
import { addMember, createStore } from '#stores/store.ts';
import type { TestApp } from './app.ts';

export const openSecondStore = async ({ sql, clock, userId }: TestApp): Promise<{ storeId: number; token: string }> => {
  const now = clock.now();
  const details = { name: 'Second', domain: 'second.example.com', email: 'second@example.com', timeZone: 'UTC', now };
  const { id: storeId } = await createStore(sql, details);
  await addMember(sql, { storeId, userId, role: 'owner', now });
  const app = await createClient(sql, {
    name: 'Second app',
    redirectUris: ['https://second.example.com/cb'],
    trusted: false,
    now,
  });
  const lifetimes = { accessTokenLifetimeSeconds: 7_200, refreshTokenIdleDays: 365 };
  const { access_token: token } = await grantStoreAccess(sql, {
    clientId: app.client_id,
    userId,
    storeId,
    now,
    ...lifetimes,
  });
  return { storeId, token };
};
