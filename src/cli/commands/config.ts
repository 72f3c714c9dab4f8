import { type Command, Option } from 'commander';
import { CONCERNS } from '../../concern.ts';
import type { AlertsConfig, Config } from '../../config/config.ts';
import { RollcallError } from '../../kernel/errors.ts';
import { type CliContext, EXIT } from '../context.ts';
import { describeDefaultGuard, withDefaultGuard } from '../default-guard.ts';
import { describeFilter, filtersOf } from '../filters.ts';
import { configOption, jsonOption, tokenFileOption, tokenOption, withTokenFile } from '../options.ts';
import { unnamedText } from '../output/run-table.ts';
import { count, note, print, printError, printJson } from '../output/terminal.ts';
import { withoutMakingStore } from '../unmade-store.ts';
import { withApp } from '../with-app.ts';

const CHECK_HELP = `
Example:
  $ rollcall config check -c rollcall.yaml
  $ rollcall config check -c rollcall.yaml --sql
  $ rollcall config check -c rollcall.yaml --sql --no-env    in CI, without secrets

With --no-env a variable that is not set stands for some valid value. Definitions whose engine or SQL needs such a
variable are not tried, and named; a store that needs one is taken for an empty one.

Exit code 2 when there are mistakes, and 1 if a definition fails with --sql. It also compares what DuckDB guesses of
files with the whole files.

With --json a mistake is {"path","file","line","column","message"}, a definition that fails
{"error":{"code","message","key","file","line"}}, and one that is not tried {"key","untried"}, with the variables.
{"key","unnamed"} names columns of an audience's result that nothing sends.`;

const DIFF_HELP = `
Example:
  $ git worktree add --detach ../base origin/main
  $ rollcall config diff ../base/rollcall.yaml rollcall.yaml

Both are compared as they are written, with the files that they include and their SQL files. Variables are not filled
in and may be unset, and secrets are not shown. An audience, trait, destination or source is renamed if its name alone
is another: the same definition, engine and source, the same webhooks, or the same write key.

With --json a difference is {"section","name","change","from","settings"}: change is added, removed, renamed or changed,
and settings are {"setting","before","after"}; "definition" is sql, sqlFile, dbt, when or value.

Exit codes: 0 no difference, 1 some, 2 a mistake in one of them.`;

const SCHEMA_HELP = `
Examples:
  $ rollcall config schema > rollcall.schema.json
  $ rollcall config schema --included > included.schema.json`;

const RELOAD_HELP = `
Example:
  $ rollcall config reload -c rollcall.yaml

It asks the service at the listen address of the file, with --token, ROLLCALL_TOKEN, a token of the configuration that
may operate, or the one in the token file. If listen.port is 0, send SIGHUP instead.`;

export function addConfig(program: Command, context: CliContext): void {
  const config = program.command('config').description('check the configuration, print its JSON Schema, or apply it');
  config
    .command('check')
    .description('report every mistake in the configuration at once')
    .addOption(configOption())
    .addOption(jsonOption())
    .option('--sql', 'try each definition in its engine as well, without running it')
    .option('--no-env', 'let variables be unset')
    .addHelpText('after', CHECK_HELP)
    .action(async (options: CheckOptions) => {
      if ((await check(options, context)) && options.sql) await tryAll(options, context);
    });
  config
    .command('diff <old> <new>')
    .description('show what another configuration file changes')
    .addOption(jsonOption())
    .addHelpText('after', DIFF_HELP)
    .action((old: string, now: string, options: JsonOption) => diff(old, now, options, context));
  config
    .command('schema')
    .description('print the JSON Schema of the configuration file, for editors')
    .addOption(new Option('--json', 'in one line'))
    .option('--included', 'of the files that it includes')
    .addHelpText('after', SCHEMA_HELP)
    .action((options: SchemaOptions) => printSchema(options, context));
  config
    .command('reload')
    .description('make the running service apply the changed file')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(tokenOption())
    .addOption(tokenFileOption())
    .addHelpText('after', RELOAD_HELP)
    .action((options: ReloadOptions) => reload(options, context));
}

interface ReloadOptions extends JsonOption {
  readonly config: string;
  readonly token?: string;
  readonly tokenFile?: string;
}

interface CheckOptions extends JsonOption {
  readonly config: string;
  readonly sql?: boolean;
  readonly env: boolean;
}

interface SchemaOptions extends JsonOption {
  readonly included?: boolean;
}

interface JsonOption {
  readonly json?: boolean;
}

async function printSchema({ json, included }: SchemaOptions, { terminal }: CliContext): Promise<void> {
  const { configJsonSchema } = await import('../../config/schema.ts');
  print(terminal, JSON.stringify(configJsonSchema(included), null, json ? 0 : 2));
}

async function diff(old: string, now: string, { json }: JsonOption, context: CliContext): Promise<void> {
  const { loadWritten } = await import('../../config/load.ts');
  const { differencesOf } = await import('../../config/difference.ts');
  const { differenceText } = await import('../output/difference-text.ts');
  const differences = differencesOf(loadWritten(old), loadWritten(now));
  for (const each of differences) {
    if (json) printJson(context.terminal, each);
    else print(context.terminal, differenceText(each));
  }
  if (differences.length > 0) context.setExitCode(EXIT.failed);
  else if (!json) print(context.terminal, 'No difference.');
}

/** Resolves to true if there are no mistakes. */
async function check({ config: file, json, env }: CheckOptions, context: CliContext): Promise<boolean> {
  const { ConfigurationError, loadConfig, loadWithoutEnv } = await import('../../config/load.ts');
  const { showMistake } = await import('../../config/mistakes.ts');
  try {
    const config = env ? loadConfig(file) : loadWithoutEnv(file);
    const { sources, destinations, audiences, traits, warnings } = config;
    const unset = [...new Set(config.unset.map(({ name }) => name))];
    const counts = {
      sources: sources.length,
      destinations: destinations.length,
      audiences: audiences.length,
      traits: traits.length,
    };
    const summary = Object.entries(counts).map(([what, number]) => count(number, what.slice(0, -1)));
    const filters = filtersOf(config);
    const alerts = config.alerts.isOn ? alertsOf(config.alerts) : null;
    if (json)
      printJson(context.terminal, {
        file,
        ...counts,
        filters,
        defaultGuard: withDefaultGuard(config),
        alerts,
        warnings,
        ...(env ? {} : { unset }),
      });
    else print(context.terminal, `${file} is valid: ${summary.join(', ')}.`);
    if (!json && unset.length > 0) note(context.terminal, `Not set: ${unset.join(', ')}.`);
    if (!json) for (const each of filters) print(context.terminal, `${each.destination} ${describeFilter(each)}`);
    const guard = describeDefaultGuard(config);
    if (!json && guard) print(context.terminal, guard);
    if (!json && alerts) print(context.terminal, describeAlerts(alerts));
    if (!json) for (const each of warnings) note(context.terminal, `warning: ${showMistake(each)}.`);
    return true;
  } catch (error) {
    if (!json || !(error instanceof ConfigurationError)) throw error;
    for (const mistake of error.mistakes) printJson(context.terminal, mistake);
    context.setExitCode(EXIT.usage);
    return false;
  }
}

async function tryAll(options: CheckOptions, { terminal, setExitCode }: CliContext): Promise<void> {
  const adapt = (config: Config) => withoutMakingStore(withoutUnsetStore(config));
  await withApp(options, { terminal, adapt, mayLack: !options.env }, async ({ app, config }) => {
    const keys = [...config.audiences, ...config.traits].map(({ key }) => key);
    const needs = unsetOf(config);
    let failed = 0;
    let untried = 0;
    for (const key of keys) {
      const unset = needs(key);
      if (unset.length > 0) {
        untried += 1;
        if (options.json) printJson(terminal, { key, untried: unset });
        else note(terminal, `${key} was not tried: it needs ${unset.join(', ')}.`);
        continue;
      }
      try {
        const unnamed = await app.sync.tryDefinition(key);
        if (unnamed.length === 0) continue;
        if (options.json) printJson(terminal, { key, unnamed });
        else note(terminal, `warning: ${key}: ${unnamedText(unnamed)}.`);
      } catch (error) {
        if (terminal.signal.aborted || !(error instanceof RollcallError)) throw error;
        failed += 1;
        const { file = null, line = null } = config.places.get(key) ?? {};
        const message = options.json ? error.message : `${file}:${line}: ${error.message}`;
        printError(terminal, { code: error.code, message, key, file, line }, options.json);
        setExitCode(EXIT.failed);
      }
    }
    if (!options.json)
      print(terminal, `${count(keys.length - failed - untried, 'definition')} of ${keys.length} can be run.`);
  });
}

/** An empty store in place of one whose URL needs a variable that is not set. */
function withoutUnsetStore(config: Config): Config {
  const isUnset = config.unset.some(({ path }) => path[0] === 'store');
  return isUnset ? { ...config, store: { ...config.store, url: 'sqlite::memory:' } } : config;
}

/** Names the unset variables that an audience or trait needs: in its SQL, and in its engine or the one with its snapshots. */
function unsetOf({ unset, audiences, traits, engines }: Config): (key: string) => readonly string[] {
  const items = { audiences, traits };
  return (key) => {
    const names = unset.filter(({ path: [section, name, setting] }) => {
      if (section === 'audiences' || section === 'traits')
        return (setting === 'sql' || setting === 'dbt') && items[section][Number(name)]?.key === key;
      const engine = [...audiences, ...traits].find((each) => each.key === key)?.engine ?? '';
      return section === 'engines' && (name === engine || name === engines[engine]?.snapshots);
    });
    return [...new Set(names.map(({ name }) => name))];
  };
}

function alertsOf({ hooks, rules }: AlertsConfig) {
  return {
    notify: hooks.map(({ name, format, url, secret }) => ({
      ...{ name, format, url: new URL(url).origin, signed: secret !== null },
    })),
    rules: CONCERNS.filter((kind) => rules[kind].isOn),
  };
}

function describeAlerts({ notify, rules }: ReturnType<typeof alertsOf>): string {
  const hooks = notify.map(({ name, format, url }) =>
    name === format ? `${name} at ${url}` : `${name} (${format}) at ${url}`,
  );
  return `Alerts go to ${hooks.join(', ') || 'the pages only'}: ${rules.join(', ') || 'no rule is on'}.`;
}

async function reload(options: ReloadOptions, { terminal }: CliContext): Promise<void> {
  const { config: file, json, token: given } = options;
  const { adminTokens } = await import('../../admin/token-file.ts');
  const { localUrl } = await import('../../admin/sign-in-link.ts');
  const { loadConfig } = await import('../../config/load.ts');
  const { request } = await import('undici');
  const config = withTokenFile(loadConfig(file), options.tokenFile);
  const { listen } = config;
  if (listen.port === 0) throw new RollcallError('bad_usage', 'listen.port is 0: send SIGHUP to the service instead.');
  const token = given ?? adminTokens(config).find(({ may }) => may.includes('operate'))?.token;
  const { statusCode, body } = await request(`${localUrl(listen)}/api/v1/config/reload`, {
    method: 'POST',
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  }).catch((error: Error) => {
    throw new RollcallError('not_found', `No service answers at ${localUrl(listen)}: ${error.message}`, {
      cause: error,
    });
  });
  const answer = await body.text();
  if (statusCode !== 200) throw await refusal(statusCode, answer, localUrl(listen));
  if (json) printJson(terminal, { file, applied: true });
  else print(terminal, 'The service has applied the configuration.');
}

/** The service's own error, if the answer has one. */
async function refusal(status: number, answer: string, url: string): Promise<RollcallError> {
  const { errorIn } = await import('../error-answer.ts');
  const error = errorIn(answer);
  if (error === null) return new RollcallError('not_found', `What answers at ${url} is no Rollcall: status ${status}.`);
  return new RollcallError(error.code, `The service did not apply it: ${error.message}`);
}
