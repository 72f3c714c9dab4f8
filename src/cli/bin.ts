#!/usr/bin/env node
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { complaintAbout } from './node-version.ts';

/*
 * The file that npm installs as `rollcall`. It checks the version of Node before it imports the program, since an older one
 * would fail with a syntax error somewhere.
 */
const complaint = complaintAbout(process.versions.node);
if (complaint !== null) {
  console.error(complaint);
  process.exitCode = 1;
} else {
  setDefaultAutoSelectFamilyAttemptTimeout(2_500);
  // Drivers connect on their own. Node would give up each address of a name after 250 ms, too soon for a distant host.
  const { emitWarning } = process;
  // Node 22 warns that its SQLite is experimental, which does not help users of a command.
  process.emitWarning = (warning, ...rest: unknown[]) => {
    const [type] = rest as [string | { readonly type?: string } | undefined];
    const name = typeof type === 'object' ? type.type : type;
    if (name !== 'ExperimentalWarning') Reflect.apply(emitWarning, process, [warning, ...rest]);
  };
  await import('./main.ts');
}
