import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { needs } from '../helpers/installed.ts';
import { rollcall } from './helpers.ts';

const run = promisify(execFile);

/** Bash's offers for the last of these words. */
async function offered(script: string, ...words: readonly string[]): Promise<readonly string[]> {
  const list = words.map((word) => `'${word}'`).join(' ');
  const ask = `${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _rollcall; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await run('bash', ['-c', ask]);
  return stdout.split('\n').filter((word) => word !== '');
}

t.test('completes commands, subcommands, options and their choices in bash', async (t) => {
  const { stdout: script } = await rollcall(['completion', 'bash']);
  t.same(await offered(script, 'rollcall', 'aud'), ['audiences', 'audit']);
  t.same(await offered(script, 'rollcall', 'dead-letters', 'r'), ['replay']);
  t.match(await offered(script, 'rollcall', 'dead-letters', 'list', '--re'), ['--reason']);
  t.ok((await offered(script, 'rollcall', 'dead-letters', 'list', '--reason', '')).includes('expired'));
  t.same(await offered(script, 'rollcall', 'completion', ''), ['bash', 'zsh', 'fish', '--json', '-h', '--help']);
  t.same(await offered(script, 'rollcall', 'sync', '-c', 'package.j'), ['package.json']);
  t.same(await offered(script, 'rollcall', 'types', '--output', 'package.j'), ['package.json']);
  t.same(await offered(script, 'rollcall', 'init', '--port', 'package.j'), [], 'a port is no file');
  t.same(await offered(script, 'rollcall', '-c', 'x', 'ru'), ['runs']);
});

/** What was asked for in each shell, and offered. */
const OFFERED: readonly (readonly [string, readonly string[]])[] = [
  ['rollcall aud', ['audiences', 'audit']],
  ['rollcall dead-letters r', ['replay']],
  ['rollcall dead-letters list --rea', ['--reason']],
  ['rollcall dead-letters list --reason exp', ['expired']],
  ['rollcall completion z', ['zsh']],
];

t.test('completes the same in a zsh without completion of its own', needs('zsh'), async (t) => {
  const { stdout: script } = await rollcall(['completion', 'zsh']);
  // `compgen` is what zsh calls for a Tab, once the words are cut.
  const tabs = OFFERED.map(
    ([line]) => `COMP_WORDS=(${line}); COMP_CWORD=$((\${#COMP_WORDS} - 1)); compgen -F _rollcall -- ''; print =`,
  );
  // It notes there which functions it found.
  const env = { ...process.env, HOME: t.testdir({}) };
  const { stdout, stderr } = await run('zsh', ['-f', '-c', `${script}\n${tabs.join('\n')}`], { env });
  t.equal(stderr, '');
  const answers = stdout.split('=\n');
  for (const [index, [line, words]] of OFFERED.entries()) {
    // zsh itself leaves out what does not begin as the last word does.
    const begun = line.slice(line.lastIndexOf(' ') + 1);
    const offered = answers[index]?.split('\n').filter((word) => word !== '' && word.startsWith(begun));
    t.same(offered, words, line);
  }
});

t.test('completes the same in fish', needs('fish'), async (t) => {
  const { stdout: script } = await rollcall(['completion', 'fish']);
  const tabs = OFFERED.map(([line]) => `complete -C '${line}'; echo =`);
  const { stdout, stderr } = await run('fish', ['--no-config', '-c', `${script}\n${tabs.join('\n')}`]);
  t.equal(stderr, '');
  const answers = stdout.split('=\n');
  for (const [index, [line, words]] of OFFERED.entries()) {
    const offered = answers[index]?.split('\n').map((each) => each.split('\t')[0] ?? '');
    t.same(offered?.filter(Boolean), words, line);
  }
});

t.test('prints one script for bash and zsh, another for fish, and refuses other shells', async (t) => {
  const [bash, zsh, fish] = await Promise.all(['bash', 'zsh', 'fish'].map((shell) => rollcall(['completion', shell])));
  t.ok(zsh?.stdout.endsWith(`autoload -U +X bashcompinit && bashcompinit\n${bash?.stdout}`));
  t.match(fish?.stdout, /^complete -c rollcall -f -n '__fish_use_subcommand' -a 'audiences' -d 'show each /m);
  t.match(fish?.stdout, / -l receiver-port -x -d /);
  t.match(fish?.stdout, / -l config -s c -r -d /);
  t.match(
    fish?.stdout,
    /seen_subcommand_from dead-letters; and not __fish_seen_subcommand_from list replay drop.* -a 'replay'/,
  );
  for (const [shell, result] of [
    ['zsh', zsh],
    ['fish', fish],
  ] as const) {
    const checked = await run(shell, ['-n', '-c', result?.stdout ?? '']).catch((error) => error);
    if (checked.code === 'ENOENT') t.comment(`${shell} is not here: its script was not parsed`);
    else t.notOk(checked.code, `${shell} takes it`);
  }
  t.match(await rollcall(['completion', 'tcsh']), { code: 2, stderr: /Allowed choices are bash, zsh, fish/ });
  t.match(JSON.parse((await rollcall(['completion', 'bash', '--json'])).stdout), {
    shell: 'bash',
    script: /_rollcall/,
  });
});
