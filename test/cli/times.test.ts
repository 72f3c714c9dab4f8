import t from 'tap';
import { instantOption } from '../../src/cli/options.ts';
import { rollcall, workspace } from './helpers.ts';

t.test('takes spans, yesterday and ISO 8601 for times', async (t) => {
  const now = Date.parse('2026-03-10T15:30:00Z');
  const at = (text: string) => new Date(instantOption(text, undefined, now)).toISOString().slice(0, 16);
  t.same(['2 days', '2 days ago', '36h', '90 min', '1 week'].map(at), [
    ...['2026-03-08T15:30', '2026-03-08T15:30', '2026-03-09T03:30', '2026-03-10T14:00', '2026-03-03T15:30'],
  ]);
  t.same(['now', 'today', 'yesterday'].map(at), ['2026-03-10T15:30', '2026-03-10T00:00', '2026-03-09T00:00']);
  t.same(['2026-01-31', '2026-01-31T10:00+02:00'].map(at), ['2026-01-31T00:00', '2026-01-31T08:00']);
  for (const text of ['', 'tomorrow', '2', 'days', '-2 days', '2 years', '2026-02-30']) {
    t.throws(() => instantOption(text, undefined, now), /It must be an ISO 8601 date/, text);
  }
});

t.test('takes them in every command with times, and colours by FORCE_COLOR and NO_COLOR', async (t) => {
  const { config } = await workspace(t, 'http://127.0.0.1:9');
  t.teardown(() => {
    for (const name of ['FORCE_COLOR', 'NO_COLOR']) delete process.env[name];
  });
  await rollcall(['sync', '--once', '-c', config]);
  for (const command of [
    ['attempts', '--since'],
    ['messages', '--since'],
    ['dead-letters', '--since'],
    ['audit', '--since'],
    ['person', 'nobody', '--at'],
    ['why', 'big_spenders', 'nobody', '--at'],
  ]) {
    for (const time of ['2 days', 'yesterday'])
      t.equal((await rollcall([...command, time, '-c', config])).code, 0, `${command.join(' ')} ${time}`);
  }
  const coloured = async () => (await rollcall(['audiences', '-c', config])).stdout.includes('\u001b[');
  t.notOk(await coloured(), 'none in a pipe');
  process.env['FORCE_COLOR'] = '1';
  t.ok(await coloured());
  process.env['NO_COLOR'] = '1';
  t.notOk(await coloured());
});
