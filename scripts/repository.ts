import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/*
 * Whose repository this is, wherever it is written.
 *
 *   node scripts/repository.ts OWNER/NAME   writes it
 *   node scripts/repository.ts --check      refuses a release from another repository: npm's provenance would not match, and
 *                                           the links of the packages' pages would lead nowhere
 */
const ROOT = join(import.meta.dirname, '..');
export const FILES = [
  ...['package.json', 'receivers/package.json', 'src/client/package.json', '.github/ISSUE_TEMPLATE/config.yml'],
  ...['deploy/prometheus/rollcall.rules.yaml', 'receivers/README.md'],
  ...['deploy/prometheus/rollcall.rules.test.yaml', 'deploy/prometheus/rollcall.rules.days.test.yaml'],
];
const PLACE = /(?<=github\.com\/)[\w.-]+\/[\w.-]+?(?=\.git\b|[/#"\s]|$)/gm;

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');
const written = () => new Set(FILES.flatMap((file) => read(file).match(PLACE) ?? []));

/** Why nothing may be published from this repository; null if all is well. */
export function complaint(repository: string | undefined): string | null {
  const [own = '', ...others] = written();
  if (others.length > 0) return `The packages name several repositories: ${[own, ...others].join(', ')}.`;
  if (repository === undefined)
    return 'GITHUB_REPOSITORY is not set: releases are made by .github/workflows/release.yml.';
  return own === repository
    ? null
    : `The packages name ${own}, and this is ${repository}. See CONTRIBUTING.md#publishing.`;
}

if (import.meta.main) {
  const [argument = ''] = process.argv.slice(2);
  if (argument === '--check') {
    const found = complaint(process.env['GITHUB_REPOSITORY']);
    if (found !== null) throw new Error(found);
  } else {
    if (!/^[\w.-]+\/[\w.-]+$/.test(argument)) throw new Error('Usage: node scripts/repository.ts OWNER/NAME | --check');
    for (const file of FILES) writeFileSync(join(ROOT, file), read(file).replaceAll(PLACE, argument));
  }
}
