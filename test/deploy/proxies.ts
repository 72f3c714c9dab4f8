import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from 'node:tls';
import { promisify } from 'node:util';
import { Authority } from '../deliver/helpers/certificates.ts';
import { freePort } from '../helpers/free-port.ts';

const FOLDER = join(import.meta.dirname, '../../deploy/proxy');
const run = promisify(execFile);

export type ProxyName = 'nginx' | 'caddy';

export interface RunningProxy {
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts a proxy with its file of `deploy/proxy`, in which only ports, certificate and name are changed. It speaks TLS. */
export async function startProxy(name: ProxyName, upstream: number): Promise<RunningProxy> {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-proxy-'));
  const authority = new Authority();
  const { key, cert } = authority.issue('DNS:localhost');
  authority.remove();
  writeFileSync(join(folder, 'key'), key);
  writeFileSync(join(folder, 'cert'), cert);
  const port = await freePort();
  const args = name === 'nginx' ? nginx(folder, port, upstream) : caddy(folder, port, upstream);
  const env = { ...process.env, HOME: folder };
  if (name === 'nginx') await run('nginx', [...args, '-t'], { env });
  const child = spawn(name, args, { stdio: 'ignore', env });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill();
    await exited;
    rmSync(folder, { recursive: true });
  };
  const failed = exited.then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`)));
  failed.catch(() => {});
  await Promise.race([answers(port), failed]);
  return { port, stop };
}

function nginx(folder: string, port: number, upstream: number): string[] {
  const site = readFileSync(join(FOLDER, 'nginx.conf'), 'utf8')
    .replace('listen 443', `listen 127.0.0.1:${port}`)
    .replace(/ *listen \[::\]:443.*\n/, '')
    .replace('127.0.0.1:8080', `127.0.0.1:${upstream}`)
    .replace(/\/etc\/ssl\/\S+\.pem/, `${folder}/cert`)
    .replace(/\/etc\/ssl\/\S+\.key/, `${folder}/key`);
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (each) => `${each}_temp_path ${folder}/${each};`,
  );
  // Debian's nginx.conf has a worker for each processor. They would give up root's rights, and could not write to the folder.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  const main = `${user} daemon off; worker_processes auto; pid ${folder}/pid; error_log stderr crit; worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http { access_log off; ${paths.join(' ')}
${site} }`;
  writeFileSync(join(folder, 'nginx.conf'), main);
  return ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')];
}

function caddy(folder: string, port: number, upstream: number): string[] {
  const file = readFileSync(join(FOLDER, 'Caddyfile'), 'utf8')
    .replace(/^\{$/m, '{\n\tadmin off\n\tauto_https disable_redirects\n\tlog {\n\t\tlevel ERROR\n\t}')
    .replace('events.example.com {', `localhost:${port} {\n\ttls ${folder}/cert ${folder}/key`)
    .replace('127.0.0.1:8080', `127.0.0.1:${upstream}`);
  writeFileSync(join(folder, 'Caddyfile'), file);
  return ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile'];
}

/** Resolves once a connection has its certificate. */
async function answers(port: number): Promise<void> {
  for (;;) {
    const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', rejectUnauthorized: false });
    try {
      await once(socket, 'secureConnect');
      return;
    } catch {
      await pause(20);
    } finally {
      socket.destroy();
    }
  }
}
