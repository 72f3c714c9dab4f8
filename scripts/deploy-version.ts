import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

// Raises what carries the version besides the packages: `npm run version-packages` does it with them.
const ROOT = join(import.meta.dirname, '..');
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };

const PLACES: readonly (readonly [file: string, place: RegExp, text: string])[] = [
  ['deploy/kubernetes/kustomization.yaml', /(?<=newTag: )[\w.-]+/, version],
  ['deploy/kubernetes/migration.yaml', /(?<=name: rollcall-migrate-)[\w-]+/, version.replaceAll('.', '-')],
  ['deploy/README.md', /(?<=-t rollcall:)[\w.-]+/, version],
  ['examples/deletion-automation/package.json', /(?<="@rollcall\/receivers": "\^)[\w.-]+/, version],
  ['src/kernel/version.ts', /(?<=VERSION = ')[\w.-]+/, version],
  ['src/client/version.ts', /(?<=version = ')[\w.-]+/, version],
];

for (const [file, place, text] of PLACES) {
  const path = join(ROOT, file);
  const before = readFileSync(path, 'utf8');
  if (!place.test(before)) throw new Error(`${file} has no place for the version.`);
  writeFileSync(path, before.replace(place, text));
}
