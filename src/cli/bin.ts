#!/usr/bin/env node
import { complaintAbout } from './node-version.ts';

/*
 * The file that npm installs as `rollcall`. It imports the program only once it knows that this Node can: an older one would end in a
 * syntax error somewhere.
 */
const complaint = complaintAbout(process.versions.node);
if (complaint !== null) {
  console.error(complaint);
  process.exitCode = 1;
} else {
  const { emitWarning } = process;
  // Node 22 calls its SQLite experimental, which is no news to whoever runs a command.
  process.emitWarning = (warning, ...rest: unknown[]) => {
    const [type] = rest as [string | { readonly type?: string } | undefined];
    const name = typeof type === 'object' ? type.type : type;
    if (name !== 'ExperimentalWarning') Reflect.apply(emitWarning, process, [warning, ...rest]);
  };
  await import('./main.ts');
}
