import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { needs } from '../helpers/installed.ts';
import { clean } from '../receivers/helpers/clean.ts';

/** Checks deploy/ against the schemas and parsers of its readers. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const run = promisify(execFile);

interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
}

/** TypeScript's complaints about objects as literals of their kinds' types: wrong types, missing keys and unknown ones. */
async function faults(t: Test, objects: readonly KubernetesObject[]): Promise<string> {
  const custom = 'monitoring.coreos.com/v1';
  const lines = objects.map((object, index) => {
    const { apiVersion, kind } = object;
    const from = apiVersion === custom ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models';
    return `export const o${index}: import('${from}/${apiVersion}').I${kind} = ${JSON.stringify(object)};`;
  });
  const file = join(t.testdir({}), 'objects.ts');
  writeFileSync(file, lines.join('\n'));
  const options = [
    '--noEmit',
    '--ignoreConfig',
    '--module',
    'nodenext',
    '--target',
    'esnext',
    '--skipLibCheck',
    '--singleThreaded',
  ];
  return clean(join(ROOT, 'node_modules/.bin/tsc'), [...options, file]).then(
    () => '',
    ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
  );
}

t.test("matches the type of each Kubernetes object's kind", async (t) => {
  const files: readonly string[] = parse(read('deploy/kubernetes/kustomization.yaml')).resources;
  const named = [...files, 'secret.example.yaml'].map((file) => parse(read(`deploy/kubernetes/${file}`)));
  t.ok(named.length > 7);
  t.equal(await faults(t, named), '');
});

t.test('finds a wrong key in an object', async (t) => {
  const deployment = parse(read('deploy/kubernetes/deployment.yaml'));
  const wrong = { ...deployment, spec: { ...deployment.spec, replicsa: 3 } };
  t.match(await faults(t, [wrong]), /replicsa.+does not exist/);
});

t.test('matches the type of each kind in the output of kustomize', needs('kubectl'), async (t) => {
  const { stdout } = await run('kubectl', ['kustomize', join(ROOT, 'deploy/kubernetes')]);
  const made: readonly KubernetesObject[] = parseAllDocuments(stdout).map((document) => document.toJS());
  t.ok(made.some(({ kind }) => kind === 'ConfigMap'));
  t.equal(await faults(t, made), '');
});

t.test('gives Prometheus a configuration that it accepts in compose, with the rules', needs('promtool'), async (t) => {
  // The rules lie where the container has them.
  const folder = t.testdir({ 'rollcall.rules.yaml': read('deploy/prometheus/rollcall.rules.yaml') });
  const config = join(folder, 'prometheus.yaml');
  writeFileSync(config, read('deploy/compose/prometheus.yaml').replace('/etc/prometheus/rules/', `${folder}/`));
  const { stdout } = await run('promtool', ['check', 'config', '--syntax-only', config]);
  t.match(stdout, /SUCCESS/);
  const mounts: readonly string[] = parse(read('deploy/compose/compose.yaml')).services.prometheus.volumes;
  const [rules] = parse(read('deploy/compose/prometheus.yaml')).rule_files;
  t.ok(mounts.some((mount) => mount.split(':')[1] === rules));
});

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly datasource: { readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets: readonly { readonly expr: string; readonly refId: string }[];
}
const board: { panels: readonly Panel[]; templating: { list: readonly { name: string }[] }; uid: string } = JSON.parse(
  read('deploy/grafana/rollcall.json'),
);

t.test("gives the dashboard's panels unique ids, places side by side and a defined source", async (t) => {
  const { panels } = board;
  t.ok(panels.length > 8);
  t.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  const variables = new Set(board.templating.list.map(({ name }) => `\${${name}}`));
  for (const { title, gridPos: a, datasource, id, targets } of panels) {
    t.ok(variables.has(datasource.uid), title);
    t.ok(a.x >= 0 && a.x + a.w <= 24, title);
    t.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
    const over = panels.filter(
      ({ id: other, gridPos: b }) =>
        other !== id && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h,
    );
    t.same(over, [], title);
  }
});

t.test('asks in the dashboard only queries that Prometheus can parse', needs('promtool'), async (t) => {
  const exprs = board.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  const rules = exprs.map((expr, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }));
  const path = join(t.testdir({}), 'rules.yaml');
  writeFileSync(path, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
  const { stdout } = await run('promtool', ['check', 'rules', path]);
  t.match(stdout, `${exprs.length} rules found`);
});

t.test('gives Grafana its data source and the dashboard in compose', async (t) => {
  const { services } = parse(read('deploy/compose/compose.yaml'));
  const mounts: readonly string[] = services.grafana.volumes;
  const [provider] = parse(read('deploy/compose/grafana/dashboards/rollcall.yaml')).providers;
  t.ok(mounts.some((mount) => mount.startsWith(`../grafana/rollcall.json:${provider.options.path}/`)));
  const [source] = parse(read('deploy/compose/grafana/datasources/prometheus.yaml')).datasources;
  t.equal(new URL(source.url).hostname, 'prometheus');
  t.ok('prometheus' in services);
});
