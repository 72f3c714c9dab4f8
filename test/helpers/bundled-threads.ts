import { syncBuiltinESMExports } from 'node:module';
import threads, { type WorkerOptions } from 'node:worker_threads';
import { threadScript } from './programs.ts';

// Two fifths of the CPU of opening a store go into finding the 82 modules of its thread.
threads.Worker = class extends threads.Worker {
  constructor(script: string | URL, options?: WorkerOptions) {
    super(threadScript(script), options);
  }
};
syncBuiltinESMExports();
