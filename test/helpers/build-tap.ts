import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';

// tap as it is installed has plug-ins that .taprc does without. Building it takes seconds, so it is built once.
const file = readFileSync(resolve(import.meta.dirname, '../../.taprc'), 'utf8');
const { plugin } = parse(file) as { readonly plugin: readonly string[] };
const isBuilt = t.pluginSignature.split('\n').every((name) => !plugin.includes(`!${name}`));
if (!isBuilt) process.exitCode = spawnSync('tap', ['build'], { stdio: 'inherit' }).status ?? 1;
