/** The files of deploy/ agree with the program: metrics, settings and commands. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { access, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { parse, parseAllDocuments } from 'yaml';
import { SETTING_GROUPS } from '#config/settings/settings.ts';
import { createProgram } from '../../src/cli/program.ts';
import { readConfig } from '../../src/config/config.ts';
import { startTestApp } from '../setup/app.ts';
import { scrape } from '../setup/exposition.ts';
import { testTerminal } from '../setup/command.ts';
import { freePort } from '../setup/free-port.ts';

const program = await createProgram(testTerminal());

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8');
const hasSystemd = await access('/usr/bin/systemd-analyze').then(
  () => true,
  () => false,
);

/** Prints the manifests. */
const HELM =
  'template halcyon deploy/helm --kube-version 1.31.0 --set settings.BASE_URL=https://api.example.com --set settings.AUTH_URL=https://accounts.example.com'.split(
    ' ',
  );
const hasHelm = await promisify(execFile)('helm', ['version']).then(
  () => true,
  () => false,
);

type Rule = { alert: string; expr: string; annotations: { summary: string; description: string } };
type Panel = { title: string; targets: { expr: string; legendFormat: string }[] };
type Service = {
  command: string[];
  env_file?: string;
  depends_on?: Record<string, unknown>;
  image?: string;
  healthcheck?: { test?: string[] };
};

const alerts = parse(await read('deploy/alerts.yaml')) as { groups: { rules: Rule[] }[] };
const rules = alerts.groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(await read('deploy/grafana-dashboard.json')) as { panels: Panel[] };
const queries = [
  ...rules.map(({ alert, expr }) => ({ name: alert, expr, legend: '' })),
  ...dashboard.panels.flatMap(({ title, targets }) =>
    targets.map(({ expr, legendFormat }) => ({ name: title, expr, legend: legendFormat })),
  ),
];

/** Prometheus gives these to every series, and `le` to the buckets of a histogram. */
const OF_PROMETHEUS: ReadonlySet<string> = new Set(['instance', 'job', 'le']);
const USES = /\b((?:halcyon|nodejs|process)_[a-z0-9_]+)(?:\{([^}]*)\})?/g;
const wordsIn = (text: string): string[] => text.split(',').map((word) => word.trim());

/** The labels of each metric in the handbook; metrics.test.ts checks its table against a running server. */
function labelsIn(handbook: string): Map<string, string[]> {
  const rows = handbook.matchAll(/^\| `(halcyon_\w+)(?:\{([\w,]+)\})?` \|/gm);
  return new Map([...rows].map(([, name = '', labels = '']) => [name, labels === '' ? [] : labels.split(',')]));
}

test('dashboard and alerts name metrics that a process serves, with labels that these have', async () => {
  const port = await freePort();
  await startTestApp({ env: { METRICS_PORT: String(port) } });
  const scraped = await scrape(`http://127.0.0.1:${port}`);
  const { samples } = scraped;
  // A test has no clock of the database, which src/db/database-clock.test.ts observes.
  const types = new Map([...scraped.types, ['halcyon_clock_ahead_seconds', 'gauge']]);
  const handbook = (await read('docs/operating.md')) + (await read('docs/delivery-states.md'));
  const documented = labelsIn(handbook);
  for (const { name, labels } of samples) {
    const base = types.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, '');
    // With a map of several databases their metrics have the label `database`.
    const own = documented.get(base) ?? [];
    const served = Object.keys(labels).filter(
      (label) => label !== 'le' && (label !== 'database' || own.includes(label)),
    );
    if (name.startsWith('halcyon_')) assert.deepEqual(served.toSorted(), own.toSorted(), name);
  }
  assert.ok(rules.length >= 10 && dashboard.panels.length >= 15, 'the files are not empty');
  for (const { name, expr, legend } of queries) {
    const uses = [...expr.matchAll(USES)].map(([, metric = '', selector = '']) => {
      const base = types.has(metric) ? metric : metric.replace(/_(?:bucket|sum|count)$/, '');
      assert.ok(types.has(base), `${name}: there is no ${metric}`);
      return { metric, selector, own: documented.get(base) ?? [] };
    });
    for (const { metric, selector, own } of uses) {
      for (const [, label = '', how, value = ''] of selector.matchAll(/(\w+)(=~?)"([^"]*)"/g)) {
        assert.ok(own.includes(label) || OF_PROMETHEUS.has(label), `${name}: ${metric} has no label ${label}`);
        if (how === '=') assert.ok(handbook.includes(value), `${name}: ${label}="${value}" is not documented`);
      }
    }
    const labels = new Set([...OF_PROMETHEUS, ...uses.flatMap(({ own }) => own)]);
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => wordsIn(list));
    const shown = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label);
    for (const label of [...grouped, ...shown]) assert.ok(labels.has(label), `${name}: nothing here has ${label}`);
    assert.ok(uses.length > 0 || /\bup\b/.test(expr), `${name} asks for nothing`);
  }
});

test('every alert says what is wrong and what to do', () => {
  for (const { alert, annotations } of rules) {
    assert.ok(annotations.summary.length > 10, alert);
    assert.ok(annotations.description.length > 20, alert);
  }
});

const settings = new Set(SETTING_GROUPS.flatMap(([, group]) => Object.keys(group)));
/** Metrics of Node. */
const OF_NODE: ReadonlySet<string> = new Set(['NODE_ENV', 'NODE_COMPILE_CACHE']);

/** Throws if the program does not know the command, without running it. */
function demandCommand([name = '', ...options]: readonly string[]): void {
  const command = program.commands.find((one) => one.name() === name);
  assert.ok(command, `there is no halcyon ${name}`);
  for (const option of options)
    assert.ok(
      command.options.some(({ long }) => long === option),
      `${name} ${option}`,
    );
}

function demandSettings(names: readonly string[], where: string): void {
  assert.ok(names.length > 0, where);
  for (const name of names) assert.ok(settings.has(name) || OF_NODE.has(name), `${where} sets ${name}`);
}

test('the example of settings is valid once the key is filled in, and has no unknown names', async () => {
  const lines = (await read('deploy/halcyon.env.example')).matchAll(/^#?([A-Z_]+)=(.*)$/gm);
  const env = Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value]));
  demandSettings(Object.keys(env), 'halcyon.env.example');
  assert.throws(() => readConfig(env, ROOT), /HALCYON_SECRET_KEY/);
  const config = readConfig({ ...env, HALCYON_SECRET_KEY: 'ab'.repeat(32) }, ROOT);
  assert.equal(config.baseUrl, 'https://api.example.com');
});

test('the compose file runs existing commands on existing files', async () => {
  const compose = parse(await read('deploy/compose.yaml'), { merge: true }) as { services: Record<string, Service> };
  const { postgres, ...services } = compose.services;
  // A new release of Debian would put texts in another order.
  assert.match(postgres?.image ?? '', /:18\.\d+-[a-z]+$/);
  // Its socket answers before it accepts other clients: while the image still creates the database.
  assert.ok(postgres?.healthcheck?.test?.includes('--host=127.0.0.1'));
  const ignored = (await read('.gitignore')).split('\n');
  assert.deepEqual(Object.keys(services), ['migrate', 'server', 'worker']);
  for (const { command, env_file: file, depends_on: before = {} } of Object.values(services)) {
    demandCommand(command);
    await access(join(ROOT, 'deploy', `${file}.example`));
    assert.ok(ignored.includes(`deploy/${file}`), `${file} has secrets, and git would take it`);
    assert.ok('postgres' in before, `${command.join(' ')}: PostgreSQL must not be stopped before it`);
    for (const name of Object.keys(before)) assert.ok(Object.hasOwn(compose.services, name), name);
  }
});

test('the image runs an existing command with existing settings, and not as root', async () => {
  const text = await read('deploy/Containerfile');
  const [, set = ''] = /^ENV (.+)$/m.exec(text) ?? [];
  demandSettings(
    [...set.matchAll(/([A-Z_]+)=/g)].map(([, name = '']) => name),
    'Containerfile',
  );
  demandCommand(JSON.parse(/^CMD (\[.+\])$/m.exec(text)?.[1] ?? '[]') as string[]);
  assert.match(text, /^USER node$/m);
});

type Container = {
  args: string[];
  env: { name: string; value: string }[];
  ports?: { name: string; containerPort: number }[];
  livenessProbe?: Probe;
  readinessProbe?: Probe;
};
type Probe = { httpGet: { path: string; port: string } };
type Manifest = {
  kind: string;
  metadata: { name: string };
  spec: { template?: { spec: { containers: Container[] } } };
};

test('the manifests for Kubernetes run existing commands with existing settings, and probe the ports of the image', async () => {
  const image = await read('deploy/Containerfile');
  const portOf = (setting: string) => Number(new RegExp(`\\b${setting}=(\\d+)`).exec(image)?.[1]);
  const manifests = parseAllDocuments(await read('deploy/kubernetes/halcyon.yaml')).map(
    (one) => one.toJS() as Manifest,
  );
  const probed = [];
  for (const { kind, metadata, spec } of manifests) {
    for (const container of spec.template?.spec.containers ?? []) {
      const { args, env, ports = [], livenessProbe, readinessProbe } = container;
      demandCommand(args);
      demandSettings(
        // The value of a secret setting is in a file.
        env.map(({ name, value }) => (value.startsWith('/run/secrets/') ? name.replace(/_FILE$/, '') : name)),
        metadata.name,
      );
      if (kind === 'Job') continue;
      const portNamed = Object.fromEntries(ports.map(({ name, containerPort }) => [name, containerPort]));
      assert.deepEqual(portNamed, { http: portOf('PORT'), metrics: portOf('METRICS_PORT') });
      for (const probe of [livenessProbe, readinessProbe]) {
        assert.equal(probe?.httpGet.port, 'metrics');
        probed.push(probe.httpGet.path);
      }
    }
  }
  assert.deepEqual(
    manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
    [
      'PodDisruptionBudget halcyon-deliver',
      'PodDisruptionBudget halcyon-serve',
      'Service halcyon',
      'Deployment halcyon-deliver',
      'Deployment halcyon-serve',
      'Job halcyon-migrate',
    ],
  );
  const port = await freePort();
  await startTestApp({ env: { METRICS_PORT: String(port) } });
  assert.equal(probed.length, 4);
  for (const path of probed) assert.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 200, path);
});

test('the chart makes the manifests for Kubernetes', { skip: !hasHelm && 'there is no helm' }, async () => {
  const { stdout } = await promisify(execFile)('helm', HELM, { cwd: ROOT });
  assert.equal(await read('deploy/kubernetes/halcyon.yaml'), stdout);
});

const UNITS = ['halcyon.service', 'halcyon-worker@.service'];

test('the units run existing commands with existing settings', async () => {
  for (const unit of UNITS) {
    const text = await read(`deploy/${unit}`);
    demandCommand(/^ExecStart=\S+ src\/main\.ts (.+)$/m.exec(text)?.[1]?.split(' ') ?? []);
    const [, set = ''] = /^Environment=(.+)$/m.exec(text) ?? [];
    demandSettings(
      set.split(' ').map((one) => one.split('=')[0] ?? ''),
      unit,
    );
  }
});

test('systemd finds no error in the units', { skip: !hasSystemd && 'there is no systemd' }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-units-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  for (const unit of UNITS) {
    await copyFile(join(ROOT, 'deploy', unit), join(folder, unit));
    // The program is not installed at its place here; any program stands for it.
    const text = (await read(`deploy/${unit}`)).replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true');
    const path = join(folder, unit.replace('@.', '@1.'));
    await writeFile(path, text);
    const { stderr } = await promisify(execFile)('systemd-analyze', ['verify', '--man=no', path]);
    assert.equal(stderr.trim(), '', unit);
  }
});
