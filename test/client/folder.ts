import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';

/** An empty folder of this test alone: several runs of the suite may share a checkout, and with it `t.testdir`. */
export function folder(t: Test): string {
  const made = mkdtempSync(path.join(tmpdir(), 'rollcall-client-'));
  t.teardown(() => rmSync(made, { recursive: true, force: true }));
  return made;
}
