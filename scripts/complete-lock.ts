import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

// A registry that lacks a package for some other platform makes npm leave it out of the lock file, and `npm ci` then
// refuses the file. Packages that npm did not fetch on this platform get their hash from the registry. Run it after
// `npm install`; a folder other than the root (bench) is given as an argument.

interface Locked {
  version?: string;
  resolved?: string;
  integrity?: string;
  link?: boolean;
  dev?: boolean;
  optionalDependencies?: Record<string, string>;
}

const file = resolve(join(import.meta.dirname, '..'), process.argv[2] ?? '.', 'package-lock.json');
const lock = JSON.parse(readFileSync(file, 'utf8')) as { packages: Record<string, Locked> };

/** The platform that a binary package's name ends with, such as `linux-x64-musl`. */
const PLATFORM =
  /(android|darwin|freebsd|linux|openbsd|win32|sunos)-(arm64|arm|x64|ia32|riscv64|loong64|ppc64|s390x)(-musl|-gnu|-glibc)?$/;

for (const [path, { dev, optionalDependencies = {} }] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    const inside = `${path}/node_modules/${name}`;
    const platform = PLATFORM.exec(name);
    if (!platform || inside in lock.packages || `node_modules/${name}` in lock.packages) continue;
    const [, os, cpu, libc] = platform;
    lock.packages[`node_modules/${name}`] = {
      version,
      ...(dev ? { dev } : {}),
      ...{
        optional: true,
        os: [os],
        cpu: [cpu],
        ...(libc === undefined ? {} : { libc: [libc === '-musl' ? 'musl' : 'glibc'] }),
      },
    };
    console.log(`added ${name} ${version}`);
  }
}
for (const [path, entry] of Object.entries(lock.packages)) {
  const [, name] = /.*node_modules\/(.+)/.exec(path) ?? [];
  if (name !== undefined && !entry.link) {
    entry.integrity ??= execFileSync('npm', ['view', `${name}@${entry.version}`, 'dist.integrity'], {
      encoding: 'utf8',
    }).trim();
  }
  if (path !== '' && entry.resolved?.startsWith('http')) delete entry.resolved;
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries(sorted);
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
