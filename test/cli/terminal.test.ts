import { Writable } from 'node:stream';
import t from 'tap';
import { createLogger } from '../../src/cli/logger.ts';
import { stateColours } from '../../src/cli/output/state-colours.ts';
import { forScreen, painter, print, type Terminal } from '../../src/cli/output/terminal.ts';
import { runProgram } from '../../src/cli/program.ts';
import { listen, rollcall, start, workspace } from './helpers.ts';

t.test('shows progress bars and readable logs on a terminal, without JSON', async (t) => {
  const slow = await listen(t, '--slow', '1h');
  const { config } = await workspace(t, slow.url);
  const sync = start(['sync', '--once', '-v', '-c', config], { tty: true });
  await sync.stderr.match(/tried .*0\/2/);
  await Promise.all([sync.stop(), slow.stop()]);
  const { stdout, stderr } = await sync.finished;
  t.match(
    stderr,
    /INFO: sync of big_spenders: done {"event":"sync_run",.*"entered":2,"exited":0,"changed":0,"sent":2}$/m,
  );
  t.notMatch(stderr, /^{"level"/m);
  t.match(stdout, /^run +audience +action/);
});

t.test('shows no bars or colours without a terminal', async (t) => {
  const listener = await listen(t, '--secret', 's3cret');
  const { config } = await workspace(t, listener.url);
  const { code, stdout, stderr } = await rollcall(['sync', '--once', '-v', '-c', config]);
  t.equal(code, 0);
  t.match(stderr, /^{"level":30,.*"event":"sync_run".*"startedAt":"\d{4}-\d\d-\d\dT.*"finishedAt":"\d{4}-.*}$/m);
  t.notMatch(stderr, /"(?:asOf|startedAt|finishedAt)":\d/);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for
  t.notMatch(stdout + stderr, /\x1b/);
});

t.test('ends without a stack if a list that nobody reads is interrupted', async (t) => {
  const listener = await listen(t);
  const { config } = await workspace(t, listener.url);
  t.equal((await rollcall(['sync', '--once', '-c', config])).code, 0);
  const stopping = new AbortController();
  const stdout = new Writable({ highWaterMark: 1, write: () => stopping.abort() });
  let said = '';
  const stderr = new Writable({
    write(chunk, _encoding, done) {
      said += chunk;
      done();
    },
  });
  const terminal = { stdout, stderr, signal: stopping.signal };
  t.equal(await runProgram(['members', 'big_spenders', '-c', config], terminal), 1);
  t.match(said, /^Interrupted\. [^\n]+\n$/);
});

t.test('prints no colours on a terminal that reports none', (t) => {
  const shown = (hasColors?: boolean) => {
    const screen = hasColors === undefined ? {} : { hasColors: () => hasColors };
    return stateColours({ stdout: { isTTY: true, ...screen } as Terminal['stdout'] })('open');
  };
  t.equal(shown(false), 'open');
  t.not(shown(true), 'open');
  t.not(shown(), 'open');
  t.end();
});

/** A screen, and what is on it. */
function screen() {
  const written: string[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
  });
  const tty = Object.assign(stream, { isTTY: true });
  const terminal: Terminal = { stdout: tty, stderr: tty, signal: new AbortController().signal };
  return { terminal, text: () => written.join('') };
}

t.test('lets only its own colours steer a terminal', (t) => {
  const { terminal, text } = screen();
  print(
    terminal,
    `${painter(true).red('bad')} \u001b[8mhidden \u001b[31mred\u001b[0m \u001b[1234;5678;9012;31mguessed`,
  );
  t.equal(
    text(),
    '\u001b[31mbad\u001b[39m \\u001b[8mhidden \\u001b[31mred\\u001b[0m \\u001b[1234;5678;9012;31mguessed\n',
  );
  const whole = `${painter(true).red('bad')}`;
  t.equal(forScreen({}, 'a\u001b[8m'), 'a\u001b[8m', 'a pipe gets all');
  t.not(whole, '\u001b[31mbad\u001b[39m', 'so that nobody can copy it');
  t.end();
});

t.test('escapes foreign control characters in log lines, but not its own colours', (t) => {
  const { terminal, text } = screen();
  const log = createLogger('info', terminal);
  log.info({ user: '\u001b[8ma', err: new Error('c\u001b[8m\u202ed') }, 'of \u001b[8m\u009b2J\u0007\r"b\\ \u00e9');
  setImmediate(() => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
    const own = /\u001b\[(?:3\d|0|22)m/g;
    const steering = [...text().replaceAll(own, '')].filter((one) => /[\p{Cc}\u202e]/u.test(one) && one !== '\n');
    t.same(steering, [], text());
    t.match(text(), 'of \\u001b[8m\\u009b2J\\u0007\\r"b\\ é');
    t.end();
  });
});

t.test('prints ids of members on one line each, and no formulas in CSV', async (t) => {
  const { url } = await listen(t);
  const odd = ['a\nb', 'c\td', '=HYPERLINK("x")', '+1+1', '-1', '@SUM(A1)', '\tx', '\u001b[8mx'];
  const rows = odd.map((id) => `('${id}', -5, '=1')`).join(', ');
  const sql = JSON.stringify(`select user_id, n, word from (values ${rows}) as t (user_id, n, word)`);
  const { config } = await workspace(t, url, `traits: [{ name: Odd, key: odd, source: personas, sql: ${sql} }]\n`);
  t.equal((await rollcall(['sync', 'odd', '--once', '--quiet', '-c', config])).stderr, '');
  const shown = async (...args: readonly string[]) => {
    const { stdout } = await rollcall(['members', 'odd', '-c', config, '-n', '99', ...args]);
    return stdout.split('\n').slice(0, -1);
  };
  const value = '\t{"n":-5,"word":"=1"}';
  const ids = ['\\u0009x', '\\u001b[8mx', '+1+1', '-1', '=HYPERLINK("x")', '@SUM(A1)', 'a\\u000ab', 'c\\u0009d'];
  t.same(
    await shown(),
    ids.map((id) => id + value),
  );
  const fields = [`'\tx`, '\u001b[8mx', `'+1+1`, `'-1`, `"'=HYPERLINK(""x"")"`, `'@SUM(A1)`, '"a', 'b"', 'c\td'];
  t.same(await shown('--csv'), ['user_id,n,word', ...fields.map((id) => (id === '"a' ? id : `${id},-5,'=1`))]);
});
