import { execFile } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { runProgram } from '../../src/cli/program.ts';
import { loadConfig } from '../../src/config/load.ts';
import { ATTEMPT_TIMEOUT } from '../../src/kernel/retry.ts';
import { needs } from '../helpers/installed.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const manifest = JSON.parse(read('package.json'));
const COMPOSE = 'deploy/compose';
const KUBERNETES = 'deploy/kubernetes';
const compose = parse(read(`${COMPOSE}/compose.yaml`));

const run = promisify(execFile);

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

t.test(
  'builds the image from existing files, and runs nothing that needs the sources before they are copied',
  async (t) => {
    const copies = named('COPY').filter((rest) => !rest.startsWith('--from'));
    const early = copies.slice(0, copies.indexOf('. .')).flatMap((rest) => rest.split(' ').slice(0, -1));
    for (const path of early) t.ok(existsSync(join(ROOT, path)), path);
    for (const workspace of manifest.workspaces) t.ok(early.includes(`${workspace}/package.json`), workspace);
    t.ok('prepare' in manifest.scripts);
    for (const step of named('RUN')) if (/npm (ci|prune)/.test(step)) t.match(step, '--ignore-scripts');
    const ignored = read('deploy/Dockerfile.dockerignore').split('\n');
    for (const source of ['src', 'jobs', 'receivers', 'scripts']) t.notOk(ignored.includes(source), source);
  },
);

t.test('runs the command line in the image, not as root, and checks health where the service answers', async (t) => {
  t.same(named('ENTRYPOINT'), ['["node", "dist/src/cli/bin.js"]']);
  t.equal(manifest.bin.rollcall, 'dist/src/cli/bin.js');
  t.same(named('USER'), ['node']);
  await understands(t, JSON.parse(named('CMD')[0] ?? '[]'));
  const folder = t.testdir({ 'rollcall.yaml': 'sources: [{ id: shop, writeKey: k }]\n' });
  const { port } = loadConfig(join(folder, 'rollcall.yaml')).listen;
  t.same(named('EXPOSE'), [String(port)]);
  t.match(named('HEALTHCHECK')[0], `http://127.0.0.1:${port}/healthz`);
});

/** Secrets of the examples, for loading their configurations. */
const SECRETS = {
  STORE_URL: 'postgres://h/d',
  ADMIN_TOKEN: 'a'.repeat(32),
  METRICS_TOKEN: 'm'.repeat(32),
  SHOP_WRITE_KEY: 'x',
  CRM_SECRET: 'x',
};

t.test('runs existing commands in order in the compose file, with a valid configuration', async (t) => {
  const { postgres, migrate, rollcall, receiver, prometheus } = compose.services;
  for (const { command } of [migrate, rollcall, receiver]) await understands(t, command);
  t.same(rollcall.depends_on, { migrate: { condition: 'service_completed_successfully' } });
  t.ok(postgres.healthcheck);
  t.ok(existsSync(join(ROOT, COMPOSE, migrate.build.context, migrate.build.dockerfile)));
  t.ok(Number.parseInt(rollcall.stop_grace_period, 10) * 1_000 > 2 * ATTEMPT_TIMEOUT);

  const config = loadConfig(join(ROOT, COMPOSE, 'rollcall.yaml'), SECRETS);
  t.same(Object.keys(migrate.environment).sort(), Object.keys(SECRETS).sort());
  t.match(rollcall.ports, [new RegExp(`:${config.listen.port}$`)]);
  t.equal(new URL(config.destinations[0]?.endpoints[0]?.url ?? '').port, receiver.command.at(-1));
  const wanted = [...read(`${COMPOSE}/compose.yaml`).matchAll(/\$\{(\w+)/g)].map(([, name]) => name);
  const example = read(`${COMPOSE}/.env.example`);
  for (const name of new Set(wanted)) t.match(example, new RegExp(`^${name}=$`, 'm'));
  const mounted = Object.values<{ volumes?: readonly string[] }>(compose.services).flatMap(
    ({ volumes = [] }) => volumes,
  );
  for (const mount of mounted) {
    const [from = ''] = mount.split(':');
    if (/^\.\.?\//.test(from)) t.ok(existsSync(join(ROOT, COMPOSE, from)), from);
    else t.ok(from in compose.volumes, from);
  }
  const scrape = parse(read(`${COMPOSE}/prometheus.yaml`)).scrape_configs[0];
  t.match(scrape, { dns_sd_configs: [{ names: ['rollcall'], port: config.listen.port }] });
  t.equal(scrape.authorization.credentials_file, `/run/secrets/${prometheus.secrets[0]}`);
});

t.test('connects the Kubernetes objects correctly, with a valid configuration', async (t) => {
  const kustomization = parse(read(`${KUBERNETES}/kustomization.yaml`));
  const files: readonly string[] = kustomization.resources;
  const parsed = files.map((file) => parse(read(`${KUBERNETES}/${file}`)));
  const objects = Object.fromEntries(parsed.map((object) => [object.kind, object]));
  const left = readdirSync(join(ROOT, KUBERNETES)).filter((file) => !files.includes(file));
  t.same(left.sort(), ['kustomization.yaml', 'rollcall.yaml', 'secret.example.yaml']);
  const secret = parse(read(`${KUBERNETES}/secret.example.yaml`));
  t.same(Object.keys(secret.stringData).sort(), Object.keys(SECRETS).sort());
  t.same(kustomization.configMapGenerator, [
    { name: 'rollcall', files: ['rollcall.yaml'] },
    { name: 'rollcall-migration', files: ['rollcall.yaml'], options: { disableNameSuffixHash: true } },
  ]);
  t.same(kustomization.images, [{ name: 'rollcall', newTag: manifest.version }]);

  const config = loadConfig(join(ROOT, KUBERNETES, 'rollcall.yaml'), SECRETS);
  const { Job: job, Deployment: deployment, Service: service, Ingress: ingress } = objects;
  t.equal(job.metadata.name, `rollcall-migrate-${manifest.version.replaceAll('.', '-')}`);
  const { template, selector } = deployment.spec;
  const [container] = template.spec.containers;
  for (const { args, image, envFrom } of [container, job.spec.template.spec.containers[0]]) {
    await understands(t, args);
    t.equal(image, 'rollcall');
    t.same(envFrom, [{ secretRef: { name: secret.metadata.name } }]);
  }
  t.same(container.ports, [{ name: 'http', containerPort: config.listen.port }]);
  t.match(
    [container.readinessProbe.httpGet, container.livenessProbe.httpGet],
    [
      { path: '/readyz', port: 'http' },
      { path: '/healthz', port: 'http' },
    ],
  );
  const labels = template.metadata.labels;
  for (const each of [selector.matchLabels, service.spec.selector]) t.same(each, labels);
  t.same(objects['PodDisruptionBudget'].spec.selector.matchLabels, labels);
  t.same(objects['ServiceMonitor'].spec.selector.matchLabels, service.metadata.labels);
  t.match(objects['ServiceMonitor'].spec.endpoints, [{ port: 'http', path: '/metrics' }]);
  t.ok(objects['ServiceMonitor'].spec.endpoints[0].authorization.credentials.key in secret.stringData);
  t.match(service.spec.ports, [{ name: 'http', targetPort: 'http' }]);
  const nginx = read('deploy/proxy/nginx.conf');
  const limits = ingress.metadata.annotations as Readonly<Record<string, string>>;
  const limit = (name: string) => limits[`nginx.ingress.kubernetes.io/${name}`];
  t.match(nginx, `rollcall_client ${limit('limit-connections')};`);
  t.match(nginx, `rate=${limit('limit-rps')}r/s;`);
  t.match(nginx, `burst=${Number(limit('limit-rps')) * Number(limit('limit-burst-multiplier'))} `);
  t.match(nginx, new RegExp(`client_max_body_size +${limit('proxy-body-size')};`));
  t.match(nginx, new RegExp(`proxy_request_buffering ${limit('proxy-request-buffering')};`));
  for (const time of ['connect', 'read'])
    t.match(nginx, new RegExp(`proxy_${time}_timeout +${limit(`proxy-${time}-timeout`)}s;`));
  for (const { backend } of ingress.spec.rules[0].http.paths) {
    t.same(backend.service, { name: service.metadata.name, port: { name: 'http' } });
  }
  const grace = template.spec.terminationGracePeriodSeconds - container.lifecycle.preStop.sleep.seconds;
  t.ok(grace * 1_000 > 2 * ATTEMPT_TIMEOUT);
  t.equal(template.spec.securityContext.runAsNonRoot, true);
});

t.test('links every alert rule to a section of the incident page', async (t) => {
  const { groups } = parse(read('deploy/prometheus/rollcall.rules.yaml'));
  const rules: readonly { alert: string; annotations: { runbook_url: string } }[] = groups[0].rules;
  t.ok(rules.length > 10);
  const [, alerts = ''] = /^## Alerts of Prometheus\n(.*?)^## /ms.exec(read('docs/incidents.md')) ?? [];
  const sections = alerts.split(/^### /m).slice(1);
  t.same(
    sections.map((section) => section.slice(0, section.indexOf('\n'))),
    rules.map(({ alert }) => alert),
  );
  for (const section of sections) t.match(section, /^\*\*Means:\*\* .+^\*\*Look:\*\* .+^\*\*Do:\*\* /ms);
  const page = `${manifest.homepage.replace('#readme', '')}/blob/main/docs/incidents.md`;
  for (const { alert, annotations } of rules) t.equal(annotations.runbook_url, `${page}#${alert.toLowerCase()}`);
});

t.test('builds with kustomize', needs('kubectl'), async (t) => {
  const { stdout } = await run('kubectl', ['kustomize', join(ROOT, KUBERNETES)]);
  t.match(stdout, `image: rollcall:${manifest.version}`);
  t.match(stdout, /configMap:\n +name: rollcall-\w+/);
});

t.test(
  'changes the processes with the configuration, but not the job, which the cluster would refuse',
  needs('kubectl'),
  async (t) => {
    const folder = t.testdir({});
    cpSync(join(ROOT, KUBERNETES), folder, { recursive: true });
    const build = async (): Promise<Map<unknown, unknown>> => {
      const { stdout } = await run('kubectl', ['kustomize', folder]);
      return new Map(parseAllDocuments(stdout).map((each) => [each.get('kind'), each.toJS()]));
    };
    const before = await build();
    appendFileSync(join(folder, 'rollcall.yaml'), 'serviceName: Another\n');
    const after = await build();
    t.not(JSON.stringify(after.get('Deployment')), JSON.stringify(before.get('Deployment')));
    t.same(after.get('Job'), before.get('Job'));
  },
);

t.test('starts what npm installs in a sound systemd unit', needs('systemd-analyze'), async (t) => {
  const unit = read('deploy/systemd/rollcall.service');
  const [, file = '', args = ''] = /^ExecStart=\S+ \S+\/node_modules\/rollcall\/(\S+) (.*)$/m.exec(unit) ?? [];
  t.equal(file, manifest.bin.rollcall);
  await understands(t, args.split(' '));
  t.ok(Number.parseInt(/TimeoutStopSec=(\d+)/.exec(unit)?.[1] ?? '', 10) * 1_000 > 2 * ATTEMPT_TIMEOUT);
  const path = join(t.testdir({}), 'rollcall.service');
  // Whether there is a node at /usr/bin is the business of the machine that runs it.
  writeFileSync(path, unit.replace('/usr/bin/node', process.execPath));
  const { stdout, stderr } = await run('systemd-analyze', ['verify', '--man=no', path]);
  t.notMatch(stdout + stderr, /rollcall\.service/);
});
