import type { AttachedConfig, DuckdbConfig, SecretConfig } from '../../../src/config/config.ts';
import { attachDatabase } from '../../../src/duckdb.ts';
import { RollcallError } from '../../../src/kernel/errors.ts';
import type { Remark } from '../../../src/kernel/remark.ts';
import { literal, name } from '../sql/plan-query.ts';

type Lake = Pick<DuckdbConfig, 'extensions' | 'secrets' | 'attach'>;

/** Nothing is loaded or installed by naming it in SQL, and secrets that others left on the machine are not used. */
export const LAKE_SETTINGS = {
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_persistent_secrets: 'false',
} as const;

/** Statements that load extensions, create secrets and attach databases for reading. */
export function lakeStatements({ extensions = [], secrets = {}, attach = {} }: Lake): readonly string[] {
  return [
    ...extensions.map((extension) => `LOAD ${name(extension)}`),
    ...Object.entries(secrets).map(([secret, settings]) => secretStatement(secret, settings)),
    ...Object.entries(attach).flatMap(([database, given]) => attachStatements(database, given)),
  ];
}

function secretStatement(secret: string, { type, ...settings }: SecretConfig): string {
  const given = Object.entries(settings).map(([setting, value]) => `${setting} ${literal(String(value))}`);
  return `CREATE TEMPORARY SECRET ${name(secret)} (${[`TYPE ${name(type)}`, ...given].join(', ')})`;
}

/** A server's address goes into a secret, because DuckDB shows what a database was attached by. */
function attachStatements(database: string, given: AttachedConfig): readonly string[] {
  if ('path' in given) return [`ATTACH ${literal(given.path)} AS ${name(database)} (TYPE ${given.type}, READ_ONLY)`];
  const url = new URL(given.url);
  const { hostname, port, username, password, pathname, searchParams } = url;
  const parts = {
    host: searchParams.get('host') ?? hostname,
    port,
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
  };
  const settings = Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== ''));
  const options = [...searchParams]
    .filter(([option]) => option !== 'host')
    .map(([option, value]) => `${option}=${value}`);
  const secret = `attached_${database}`;
  return [
    secretStatement(secret, { type: given.type, ...settings }),
    `ATTACH ${literal(options.join(' '))} AS ${name(database)} (TYPE ${given.type}, SECRET ${name(secret)}, READ_ONLY)`,
  ];
}

/** Settings of secrets that help to understand an error. */
const SHOWN = /^(endpoint|region|url_style|scope|provider|host|port|database|user|account_name)$/i;

/** Removes secrets from a text, longest first. */
export function withoutSecrets({ secrets = {}, attach = {} }: Lake): (text: string) => string {
  const values = new Set<string>();
  for (const { type, ...settings } of Object.values(secrets))
    for (const [setting, value] of Object.entries(settings))
      if (typeof value !== 'boolean' && !SHOWN.test(setting)) values.add(String(value));
  for (const given of Object.values(attach)) {
    if (!('url' in given)) continue;
    const { password } = new URL(given.url);
    for (const value of [given.url, password, decodeURIComponent(password)]) values.add(value);
  }
  const hidden = [...values].filter((value) => value.length > 2).sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((rest, value) => rest.replaceAll(value, '…'), text);
}

/** The error of a statement of the lake. */
export function lakeError(statement: string, message: string): RollcallError {
  const [, extension] = /^LOAD "(.*)"$/.exec(statement) ?? [];
  const [, database] = /^ATTACH [\s\S]* AS "(\w+)" \(/.exec(statement) ?? [];
  const [, secret] = /^CREATE TEMPORARY SECRET "(\w+)"/.exec(statement) ?? [];
  if (extension !== undefined) {
    const reason = /not found|not installed/i.test(message)
      ? 'is not installed. Run: rollcall doctor --install'
      : `can't be loaded: ${message}`;
    return new RollcallError('engine_unreachable', `The extension ${extension} of DuckDB ${reason}`);
  }
  const needs = /[Ee]xtension/.test(message) ? ' Name its extension under extensions of the engine.' : '';
  const what = database === undefined ? `The secret ${secret} can't be made` : `Can't attach ${database}`;
  return new RollcallError('engine_unreachable', `${what}: ${message}${needs}`);
}

/** Installs the engine's extensions that are missing, from DuckDB's own server. */
export async function installMissing({
  extensions = [],
}: Pick<DuckdbConfig, 'extensions'>): Promise<readonly Remark[]> {
  const database = await attachDatabase({ path: ':memory:', name: 'installing' }, LAKE_SETTINGS);
  const connection = await database.connect();
  const remarks: Remark[] = [];
  try {
    for (const extension of extensions) {
      try {
        await connection.run(`INSTALL ${name(extension)}`);
        await connection.run(`LOAD ${name(extension)}`);
        remarks.push({ state: 'ok', message: `the extension ${extension} is installed` });
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        remarks.push({ state: 'failed', message: `the extension ${extension} can't be installed: ${reason}` });
      }
    }
  } finally {
    connection.closeSync();
    await database.detach();
  }
  return remarks;
}
