/** Each library for Node, as each kind of client that it can be. */
import { test } from 'node:test';
import { walk as arctic } from './node/arctic.ts';
import { walk as badgateway } from './node/badgateway.ts';
import { walk as oauth4webapi } from './node/oauth4webapi.ts';
import { walk as openidClient } from './node/openid-client.ts';
import { walk as passport } from './node/passport-oauth2.ts';
import { walk as simple } from './node/simple-oauth2.ts';
import { assertWalked, kinds, openScene, type Method, type Walk } from './oauth-flow.ts';

const scene = await openScene();

const walks: readonly (readonly [library: string, walk: Walk, methods: readonly Method[]])[] = [
  ['openid-client', openidClient, ['basic', 'post', 'none']],
  ['oauth4webapi', oauth4webapi, ['basic', 'post', 'none']],
  ['simple-oauth2', simple, ['basic', 'post', 'none']],
  ['passport-oauth2', passport, ['post', 'none']],
  ['@badgateway/oauth2-client', badgateway, ['basic', 'post', 'none']],
  ['arctic', arctic, ['basic', 'none']],
];

for (const [library, walk, methods] of walks) {
  for (const method of methods) {
    test(`${library} completes the whole flow ${kinds[method]}`, async () => {
      const app = method === 'none' ? await scene.onComputer() : await scene.confidential(method);
      assertWalked(await walk(app), method);
    });
  }
}
