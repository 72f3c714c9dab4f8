#!/usr/bin/env node
import { startFolder } from '../config/start-folder.ts';
import { EXIT } from './context.ts';
import { runProgram } from './program.ts';

/** Milliseconds for which leftovers of a failed command may keep the process alive. */
const LEFTOVERS = 5_000;

// Files hold secrets and data of people: only their owner may read them, unless `files.group` is set.
process.umask(0o077);
const stopping = new AbortController();
let signals = 0;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    signals += 1;
    // A second signal means "at once": messages in flight are sent again by the next start.
    if (signals > 1) process.exit(signal === 'SIGINT' ? 130 : 143);
    stopping.abort();
  });
}
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader that stops early, such as `head`, is not a failure.
  if (error.code === 'EPIPE') process.exit(EXIT.done);
  process.stderr.write(`The output can't be written: ${error.message}\n`);
  process.exit(EXIT.failed);
});
// Logs are lost if the disk is full or nobody reads them. The service goes on.
process.stderr.on('error', () => {});

const folder = startFolder();
if (folder !== null) process.chdir(folder);
const { stdin, stdout, stderr } = process;
process.exitCode = await runProgram(process.argv.slice(2), { stdin, stdout, stderr, signal: stopping.signal });
// Everything is printed and closed by now. A thread stuck in a system call must not keep a failed process from being
// restarted. `process.exit` would wait for that thread.
if (process.exitCode !== EXIT.done) setTimeout(() => process.kill(process.pid, 'SIGKILL'), LEFTOVERS).unref();
