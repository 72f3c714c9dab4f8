import { execFileSync } from 'node:child_process';

/** Options of a test that needs a command: where that is missing, the test is skipped with a message. */
export function needs(command: string): { readonly skip?: string } {
  try {
    execFileSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' });
    return {};
  } catch {
    return { skip: `${command} is not installed` };
  }
}
