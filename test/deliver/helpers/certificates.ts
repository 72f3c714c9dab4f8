import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Pair {
  readonly key: string;
  readonly cert: string;
}

/** Makes certificates with the openssl command, in a folder of its own. */
export class Authority {
  private readonly folder = mkdtempSync(join(tmpdir(), 'rollcall-tls-'));
  /** The authority's own certificate, PEM. */
  readonly cert: string;

  constructor() {
    this.run('req', '-x509', ...NEW_KEY, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '30', '-subj', '/CN=Test CA');
    this.cert = this.read('ca.pem');
  }

  /** A certificate for `subject` (such as `DNS:x.example`) that nobody signed but itself. */
  selfSigned(subject: string): Pair {
    const name = ['-subj', '/CN=self', '-addext', `subjectAltName=${subject}`];
    this.run('req', '-x509', ...NEW_KEY, '-keyout', 'self.key', '-out', 'self.pem', '-days', '30', ...name);
    return { key: this.read('self.key'), cert: this.read('self.pem') };
  }

  /** A certificate signed by this authority; the dates are as in `20200101000000Z`. */
  issue(subject: string, { from = '', until = '' } = {}): Pair {
    this.run('req', ...NEW_KEY, '-keyout', 'leaf.key', '-out', 'leaf.csr', '-subj', '/CN=leaf');
    writeFileSync(join(this.folder, 'ca.conf'), CA_CONFIG);
    writeFileSync(join(this.folder, 'index'), '');
    writeFileSync(join(this.folder, 'ext'), `subjectAltName=${subject}\n`);
    const dates = from === '' ? ['-days', '30'] : ['-startdate', from, '-enddate', until];
    const files = ['-in', 'leaf.csr', '-out', 'leaf.pem', '-cert', 'ca.pem', '-keyfile', 'ca.key', '-outdir', '.'];
    this.run('ca', '-batch', '-notext', '-config', 'ca.conf', '-extfile', 'ext', ...files, ...dates);
    return { key: this.read('leaf.key'), cert: this.read('leaf.pem') };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }

  private run(...args: string[]): void {
    execFileSync('openssl', args, { cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
  }

  private read(file: string): string {
    return readFileSync(join(this.folder, file), 'utf8');
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
const CA_CONFIG = `[ca]
default_ca = authority
[authority]
database = index
serial = serial
rand_serial = yes
default_md = sha256
policy = anything
unique_subject = no
[anything]
commonName = optional
`;
