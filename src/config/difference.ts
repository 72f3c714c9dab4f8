import isEqual from 'lodash/isEqual.js';
import { redactUrl } from '../destination.ts';
import { keyOf } from './outline.ts';

export interface ConfigDifference {
  readonly section: string;
  /** The key of an audience or trait, the name of others; of single settings the path. */
  readonly name: string;
  readonly change: 'added' | 'removed' | 'renamed' | 'changed';
  /** The former name, if it was renamed. */
  readonly from: string | null;
  readonly settings: readonly SettingDifference[];
}

interface SettingDifference {
  /** `definition` stands for `sql`, `dbt`, `when` and `value`. */
  readonly setting: string;
  /** As written, without secrets; null where it is absent. */
  readonly before: unknown;
  readonly after: unknown;
}

type Item = Readonly<Record<string, unknown>>;

/** Sections of named things: the name of each, and the settings that make it the same thing under another name. */
const SECTIONS: Readonly<Record<string, { nameOf(item: Item): string; readonly same: readonly string[] }>> = {
  sources: { nameOf: ({ id }) => String(id), same: ['writeKey'] },
  destinations: { nameOf: ({ name }) => String(name), same: ['webhooks', 'webhookUrl'] },
  audiences: { nameOf: (item) => keyOf(item as { readonly name: string }), same: ['definition', 'engine', 'source'] },
  traits: { nameOf: (item) => keyOf(item as { readonly name: string }), same: ['definition', 'engine', 'source'] },
};
/** Settings that are a thing's name. */
const NAMES = new Set(['id', 'name', 'key']);

/** The differences of two configurations as they are written, by section and name. */
export function differencesOf(before: unknown, after: unknown): readonly ConfigDifference[] {
  const [old, now] = [before, after].map((content) => ({ ...(content as object) })) as [Item, Item];
  const named = Object.entries(SECTIONS).flatMap(([section, { nameOf, same }]) => {
    const [was, is] = [old, now].map((content) => itemsOf(content[section], nameOf)) as [NamedItems, NamedItems];
    return sectionDifferences(section, was, is, same);
  });
  const engines = sectionDifferences('engines', enginesOf(old), enginesOf(now), null);
  const others = [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((name) => !(name in SECTIONS) && name !== 'engines' && name !== 'include')
    .flatMap((name) => settingDifferences({ [name]: old[name] }, { [name]: now[name] }))
    .map(
      (each) => ({ section: 'settings', name: each.setting, change: 'changed', from: null, settings: [each] }) as const,
    );
  return [...named, ...engines, ...others];
}

type NamedItems = ReadonlyMap<string, Item>;

function itemsOf(items: unknown, nameOf: (item: Item) => string): NamedItems {
  return new Map(((items ?? []) as readonly Item[]).map((item) => [nameOf(item), withDefinition(item)]));
}

function withDefinition({ sql, dbt, when, value, ...item }: Item): Item {
  const definition = sql ?? dbt ?? when ?? value;
  return definition === undefined ? item : { ...item, definition };
}

const enginesOf = ({ engines }: Item): NamedItems => new Map(Object.entries((engines ?? {}) as Record<string, Item>));

/** @param same - settings by which a renamed thing is known; null for all */
function sectionDifferences(
  section: string,
  old: NamedItems,
  now: NamedItems,
  same: readonly string[] | null,
): ConfigDifference[] {
  const gone = new Map([...old].filter(([name]) => !now.has(name)));
  const found = [...now].flatMap(([name, item]): ConfigDifference[] => {
    const was = old.get(name);
    if (was) {
      const settings = settingDifferences(was, item);
      return settings.length > 0 ? [{ section, name, change: 'changed', from: null, settings }] : [];
    }
    const isSame = (other: Item) =>
      same === null ? isEqual(other, item) : same.every((setting) => isEqual(other[setting], item[setting]));
    const [from, former] = [...gone].find(([, other]) => isSame(other)) ?? [null, {}];
    if (from === null) return [{ section, name, change: 'added', from, settings: [] }];
    gone.delete(from);
    return [{ section, name, change: 'renamed', from, settings: settingDifferences(former, item) }];
  });
  const removed = [...gone.keys()].map(
    (name): ConfigDifference => ({ section, name, change: 'removed', from: null, settings: [] }),
  );
  return [...found, ...removed];
}

function settingDifferences(old: Item, now: Item): SettingDifference[] {
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((setting) => !NAMES.has(setting) && !isEqual(old[setting], now[setting]))
    .map((setting) => ({
      setting,
      before: withoutSecrets(old[setting], setting),
      after: withoutSecrets(now[setting], setting),
    }));
}

/** Settings that are secrets, or may have them. */
const SECRET =
  /^(sharedSecret|writeKey|token|tokens|secret|secrets|headers|options|settings|attach|notify|password|credentials|privateKey)$/;
const HIDDEN = '(not shown)';

/** Hides secrets and the parts of URLs that may have them. A variable's name is no secret. */
function withoutSecrets(value: unknown, setting: string): unknown {
  if (value === undefined) return null;
  if (Array.isArray(value)) return value.map((each) => withoutSecrets(each, setting));
  if (typeof value === 'string') {
    if (/^\$\{\w+\}$/.test(value)) return value;
    if (SECRET.test(setting)) return HIDDEN;
    if (setting === 'definition' || !/^[a-z]+:\/\//i.test(value)) return value;
    return URL.canParse(value) ? redactUrl(value) : HIDDEN;
  }
  if (SECRET.test(setting)) return HIDDEN;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutSecrets(each, name)]));
}
