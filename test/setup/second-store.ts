/** Creates a second store in the same fixture, with an app that has access to this store only. */
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import type { TestApp } from './app.ts';
import { letAppIn } from './grant-access.ts';

export async function openSecondStore(fixture: TestApp): Promise<{ storeId: number; token: string }> {
  const { sql, clock, userId } = fixture;
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
  const { access_token: token } = await letAppIn(fixture, { clientId: app.client_id, userId, storeId, now });
  return { storeId, token };
}
