import { definitionSql } from '../../../jobs/definition-sql.ts';
import type { AudienceConfig, Config, TraitConfig } from '../../../src/config/config.ts';
import { parseConfig } from '../../../src/config/load.ts';

/** The settings of an audience or trait, name and source aside. */
export type Given = { readonly when: unknown } | { readonly value: unknown } | { readonly sql: string };

/** A configuration with the definition `x` and other audiences by key, read as a file would be. */
export function configured(given: Given, others: Readonly<Record<string, Given>> = {}): Config {
  const common = { source: 'personas' };
  const named = Object.entries(others).map(([key, other]) => ({ name: key, key, ...common, ...other }));
  const own = { name: 'x', ...common, ...given };
  const file = {
    sources: [{ id: 'personas', writeKey: 'k' }],
    eventLog: {},
    audiences: 'value' in given ? named : [own, ...named],
    traits: 'value' in given ? [own] : [],
  };
  return parseConfig(JSON.stringify(file), { file: 'test.yaml', folder: '/', env: {} });
}

export function definitionOf(config: Config): AudienceConfig | TraitConfig {
  const found = [...config.audiences, ...config.traits].find(({ key }) => key === 'x');
  if (!found) throw new Error('There is no definition x.');
  return found;
}

/** The SQL of `x` for one type of engine. */
export function sqlFor(type: 'duckdb' | 'postgres', config: Config): string {
  const engine =
    type === 'duckdb'
      ? ({ type, path: ':memory:', memoryLimit: null, threads: null, concurrency: 1 } as const)
      : ({ type, url: '', concurrency: 1 } as const);
  return definitionSql(definitionOf(config), { ...config, engines: { lake: engine } });
}
