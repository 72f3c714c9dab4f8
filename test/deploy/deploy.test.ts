import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { runProgram } from '../../src/cli/program.ts';
import { loadConfig } from '../../src/config/load.ts';
import { ATTEMPT_TIMEOUT } from '../../src/retry.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const manifest = JSON.parse(read('package.json'));
const compose = parse(read('deploy/compose.yaml'));
const [configMap, job, deployment, service] = parseAllDocuments(read('deploy/kubernetes.yaml')).map((each) =>
  each.toJS(),
);

/** The Dockerfile's instructions, each on one line. */
const instructions = read('deploy/Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, ' ')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => ({ name: line.slice(0, line.indexOf(' ')), rest: line.slice(line.indexOf(' ') + 1) }));
const named = (name: string) => instructions.filter((each) => each.name === name).map(({ rest }) => rest);

/** Arguments that the command line understands, as far as its help goes. */
async function understands(t: Test, args: readonly string[]): Promise<void> {
  const sink = () => new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = { stdout: sink(), stderr: sink(), signal: new AbortController().signal };
  t.equal(await runProgram([...args, '--help'], terminal), 0, args.join(' '));
}

t.test('the image is built of what is there, and before the sources are, nothing is run that needs them', async (t) => {
  const copies = named('COPY').filter((rest) => !rest.startsWith('--from'));
  const early = copies.slice(0, copies.indexOf('. .')).flatMap((rest) => rest.split(' ').slice(0, -1));
  for (const path of early) t.ok(existsSync(join(ROOT, path)), path);
  for (const workspace of manifest.workspaces) t.ok(early.includes(`${workspace}/package.json`), workspace);
  t.ok('prepare' in manifest.scripts);
  for (const step of named('RUN')) if (/npm (ci|prune)/.test(step)) t.match(step, '--ignore-scripts');
  const ignored = read('deploy/Dockerfile.dockerignore').split('\n');
  for (const source of ['src', 'jobs', 'receivers', 'scripts']) t.notOk(ignored.includes(source), source);
});

t.test('the image runs the command line, as no root, and asks for its health where the service answers', async (t) => {
  t.same(named('ENTRYPOINT'), ['["node", "dist/src/cli/bin.js"]']);
  t.equal(manifest.bin.rollcall, 'dist/src/cli/bin.js');
  t.same(named('USER'), ['node']);
  await understands(t, JSON.parse(named('CMD')[0] ?? '[]'));
  const folder = t.testdir({ 'rollcall.yaml': 'sources: [{ id: shop, writeKey: k }]\n' });
  const { port } = loadConfig(join(folder, 'rollcall.yaml')).listen;
  t.same(named('EXPOSE'), [String(port)]);
  t.match(named('HEALTHCHECK')[0], `http://127.0.0.1:${port}/healthz`);
});

t.test('the compose file runs commands that are there, in their order', async (t) => {
  const { postgres, migrate, rollcall } = compose.services;
  await understands(t, migrate.command);
  t.same(rollcall.depends_on, { migrate: { condition: 'service_completed_successfully' } });
  t.ok(postgres.healthcheck);
  t.ok(existsSync(join(ROOT, 'deploy', migrate.build.context, migrate.build.dockerfile)));
  t.ok(Number.parseInt(rollcall.stop_grace_period, 10) * 1_000 > 2 * ATTEMPT_TIMEOUT);
});

t.test('the Kubernetes objects fit together, and their configuration is valid', async (t) => {
  t.same(
    [configMap, job, deployment, service].map(({ kind }) => kind),
    ['ConfigMap', 'Job', 'Deployment', 'Service'],
  );
  const variables = ['STORE_URL', 'ADMIN_TOKEN', 'SHOP_WRITE_KEY', 'CRM_SECRET'];
  for (const name of variables) process.env[name] ??= name === 'STORE_URL' ? 'postgres://h/d' : 'x';
  const folder = t.testdir(configMap.data);
  const config = loadConfig(join(folder, 'rollcall.yaml'));
  const { template, selector } = deployment.spec;
  const [container] = template.spec.containers;
  for (const { args, image } of [container, job.spec.template.spec.containers[0]]) {
    await understands(t, args);
    t.equal(image, `rollcall:${manifest.version}`);
  }
  const { port } = config.listen;
  const { readinessProbe, livenessProbe, lifecycle } = container;
  t.same(container.ports, [{ containerPort: port }]);
  t.match(
    [readinessProbe.httpGet, livenessProbe.httpGet],
    [
      { path: '/readyz', port },
      { path: '/healthz', port },
    ],
  );
  t.same(selector.matchLabels, template.metadata.labels);
  t.same(service.spec.selector, template.metadata.labels);
  t.equal(service.spec.ports[0].targetPort, port);
  const grace = template.spec.terminationGracePeriodSeconds - lifecycle.preStop.sleep.seconds;
  t.ok(grace * 1_000 > 2 * ATTEMPT_TIMEOUT);
  t.equal(template.spec.securityContext.runAsNonRoot, true);
});
