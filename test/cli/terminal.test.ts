import { Writable } from 'node:stream';
import t from 'tap';
import { stateColours } from '../../src/cli/output/state-colours.ts';
import type { Terminal } from '../../src/cli/output/terminal.ts';
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
  t.match(stderr, /^{"level":30,.*"event":"sync_run".*}$/m);
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
