#!/usr/bin/env node
import { startFolder } from '../config/start-folder.ts';
import { EXIT } from './context.ts';
import { runProgram } from './program.ts';

/** How long what a failed command left behind may keep the process alive, in milliseconds. */
const LEFTOVERS = 5_000;

const stopping = new AbortController();
let signals = 0;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    signals += 1;
    // A second one means "at once": what is in flight is sent again by the next start.
    if (signals > 1) process.exit(signal === 'SIGINT' ? 130 : 143);
    stopping.abort();
  });
}
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader that has seen enough, such as `head`, is no failure.
  if (error.code === 'EPIPE') process.exit(EXIT.done);
  process.stderr.write(`The output can't be written: ${error.message}\n`);
  process.exit(EXIT.failed);
});
// Logs that find a full disk, or nobody who reads them, are lost; the service goes on.
process.stderr.on('error', () => {});

const folder = startFolder();
if (folder !== null) process.chdir(folder);
const { stdin, stdout, stderr } = process;
process.exitCode = await runProgram(process.argv.slice(2), { stdin, stdout, stderr, signal: stopping.signal });
// All is said and closed by now. What still holds a process that failed, such as a thread that is stuck in a call to the
// system, must not keep it from being started again; `process.exit` would wait for that thread.
if (process.exitCode !== EXIT.done) setTimeout(() => process.kill(process.pid, 'SIGKILL'), LEFTOVERS).unref();
