import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { rollcall } from './helpers.ts';

const run = promisify(execFile);

/** Bash's offers for the last of these words. */
async function offered(script: string, ...words: readonly string[]): Promise<readonly string[]> {
  const list = words.map((word) => `'${word}'`).join(' ');
  const ask = `${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _rollcall; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await run('bash', ['-c', ask]);
  return stdout.split('\n').filter((word) => word !== '');
}

t.test('bash completes commands, subcommands, options and their choices', async (t) => {
  const { stdout: script } = await rollcall(['completion', 'bash']);
  t.same(await offered(script, 'rollcall', 'aud'), ['audiences', 'audit']);
  t.same(await offered(script, 'rollcall', 'dead-letters', 'r'), ['replay']);
  t.match(await offered(script, 'rollcall', 'dead-letters', 'list', '--re'), ['--reason']);
  t.ok((await offered(script, 'rollcall', 'dead-letters', 'list', '--reason', '')).includes('tls_untrusted'));
  t.same(await offered(script, 'rollcall', 'completion', ''), ['bash', 'zsh', 'fish', '--json', '-h', '--help']);
  t.same(await offered(script, 'rollcall', 'sync', '-c', 'package.j'), ['package.json']);
  t.same(await offered(script, 'rollcall', '-c', 'x', 'ru'), ['runs']);
});

t.test('zsh takes the same script, fish has one of its own, and others are refused', async (t) => {
  const [bash, zsh, fish] = await Promise.all(['bash', 'zsh', 'fish'].map((shell) => rollcall(['completion', shell])));
  t.equal(zsh?.stdout, `autoload -U +X bashcompinit && bashcompinit\n${bash?.stdout}`);
  t.match(fish?.stdout, /^complete -c rollcall -f -n '__fish_use_subcommand' -a 'audiences' -d 'show each /m);
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
