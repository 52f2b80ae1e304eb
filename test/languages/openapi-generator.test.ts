/** The clients that openapi-generator (from Maven Central) makes from /openapi.json in Python, Go and Java compile. */
import assert from 'node:assert/strict';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { startFurnishedApp } from '../setup/app-with-resources.ts';
import { cleanups } from '../setup/cleanups.ts';
import { copyArtifact, isMissing, makePythonEnvironment, MAVEN, succeed, type Program } from './programs.ts';

const GENERATOR = 'openapi-generator-cli';
const VERSION = '7.25.0';

/** The first Go that can read the go.mod of the client's dependencies; Debian 13 has it. */
const GO: Program = { version: ['go', 'version'], atLeast: [1, 23], debianPackages: 'golang-go' };

const ends = cleanups();
const folder = await mkdtemp(join(tmpdir(), 'halcyon-generated-'));
ends.after(() => rm(folder, { recursive: true }));
const app = await startFurnishedApp();

let jar: Promise<string> | undefined;
/** Gets the generator from Maven Central once; returns its file. */
function getGenerator(): Promise<string> {
  jar ??= copyArtifact(`org.openapitools:${GENERATOR}:${VERSION}`, folder).then(() =>
    join(folder, `${GENERATOR}-${VERSION}.jar`),
  );
  return jar;
}

/** Returns the folder of a new client, without documents and tests. */
async function generate(language: string, properties: readonly string[]): Promise<string> {
  const client = join(folder, language);
  const all = ['apiDocs=false', 'modelDocs=false', 'apiTests=false', 'modelTests=false', ...properties];
  // Only the fast compiler of the JVM: the slower one takes more time than its code saves in a run of seconds.
  const java = ['-XX:TieredStopAtLevel=1', '-jar', await getGenerator()];
  const source = ['generate', '-i', `${app.baseUrl}/openapi.json`, '-g', language, '-o', client];
  await succeed('java', [...java, ...source, '--global-property', all.join(',')]);
  return client;
}

suite('openapi-generator', () => {
  test('the client in Python can be imported, and reads the API', async (t) => {
    if (await isMissing(t, MAVEN)) return;
    // Without the section `webhooks`, for which the generator writes parameters without types.
    const client = await generate('python', ['apis', 'models', 'supportingFiles']);
    const programOf = await makePythonEnvironment(join(folder, 'venv'), ['-r', join(client, 'requirements.txt')]);
    const python = programOf('python');
    await succeed(python, ['-m', 'compileall', '-q', join(client, 'openapi_client')]);
    await copyFile(join(import.meta.dirname, 'walk.py'), join(client, 'walk.py'));
    const { webhook_id: webhookId = assert.fail() } = app.named;
    const env = { TOKEN: app.token, WEBHOOK_ID: webhookId, STORE_ID: String(app.storeId) };
    assert.deepEqual(JSON.parse(await succeed(python, [join(client, 'walk.py')], { env })), {
      home: `${app.baseUrl}/`,
      webhook: [Number(webhookId), 'Orders'],
      published: `${app.baseUrl}/stores/${app.storeId}/transactions/1`,
    });
  });

  test('the client in Go compiles, with its tests', async (t) => {
    if ((await isMissing(t, MAVEN)) || (await isMissing(t, GO))) return;
    // Without the section `webhooks`: the generated client has no field for its operations, which the generated tests use.
    const client = await generate('go', ['apis', 'models', 'supportingFiles', 'apiTests=true']);
    await succeed('go', ['mod', 'tidy'], { cwd: client });
    await succeed('go', ['build', './...'], { cwd: client });
    await succeed('go', ['vet', './...'], { cwd: client });
  });

  test('the client in Java compiles', async (t) => {
    if (await isMissing(t, MAVEN)) return;
    const client = await generate('java', []);
    await succeed('mvn', ['--quiet', '--batch-mode', '-Dmaven.test.skip', 'compile'], { cwd: client });
  });
});
