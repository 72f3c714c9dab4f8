import uniqBy from 'lodash/uniqBy.js';
import { Lexer } from 'yaml';
import type * as z from 'zod';
import { audience, trait } from './computation-schema.ts';
import type { AudienceConfig, Config, TraitConfig, WrittenDefinition } from './config.ts';
import { parseFile } from './document.ts';
import { logWarnings } from './event-log.ts';
import { checkLogReferences } from './log-references.ts';
import { explain, fromIssue, type Mistake, type Path, placeIn, type ShownMistake, showPath } from './mistakes.ts';
import { audienceOf, traitOf } from './normalise.ts';
import { engineNames, keyOf, outlineOf } from './outline.ts';
import { checkReferences } from './references.ts';
import { fillVariables } from './variables.ts';

/** An audience or trait that somebody tries before it is in the configuration. */
interface Draft {
  /** Null if there are mistakes. */
  readonly computation: AudienceConfig | TraitConfig | null;
  /** The section that it belongs to, and the item as it is written; null if the text can't be read. */
  readonly written: { readonly section: WrittenDefinition['section']; readonly item: unknown } | null;
  readonly mistakes: readonly ShownMistake[];
  /** Settings that are allowed but probably mistakes. */
  readonly warnings: readonly ShownMistake[];
}

/** The name of a draft in mistakes. */
const FILE = 'draft';
const NOWHERE = { path: '', file: FILE, line: null, column: null };
/** Names, values and signs of a draft's YAML. The parser's time grows with their square. */
const MOST_TOKENS = 10_000;

function isLong(text: string): boolean {
  let tokens = 0;
  for (const _token of new Lexer().lex(text)) if (++tokens > MOST_TOKENS) return true;
  return false;
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Checks a draft as if it were in the configuration: an item, or a file with one audience or trait. Its mistakes have
 * places in its text.
 *
 * @param edits - the key of the item whose place it takes; without it, the item of its own key
 */
export function parseDraft(text: string, config: Config, edits: string | null): Draft {
  const none = { computation: null, written: null, warnings: [] };
  if (isLong(text)) return { ...none, mistakes: [{ ...NOWHERE, message: 'is longer than an audience can be' }] };
  const parsed = parseFile(text, FILE);
  if (!('document' in parsed)) return { ...none, mistakes: parsed };
  const found = itemIn(parsed.content);
  const shown = ({ path, message }: Mistake): ShownMistake => {
    return { path: showPath(path), file: FILE, ...placeIn(parsed.document, parsed.lines, path), message };
  };
  if ('fault' in found) return { ...none, mistakes: [shown({ path: [], message: found.fault })] };
  const [section, path, own] = found;
  const written = { section, item: own };
  const missing: (Mistake & { readonly name?: string })[] = [];
  const item = fillVariables(own, {}, { missing, inSql: new Map() }, path);
  const unset = missing.map(({ name, ...rest }) =>
    name === undefined
      ? rest
      : { ...rest, message: `needs a value in place of \${${name}}: a draft gets no variables` },
  );
  const read = (section === 'audiences' ? audience : trait).safeParse(item, { error: explain });
  const issues = read.error?.issues.flatMap((issue) => fromIssue(issue, path)) ?? [];
  const wrong = [...unset, ...filesIn(item, path), ...issues, ...amongOthers(section, item, config, edits, path)];
  if (wrong.length > 0 || !read.data)
    return { ...none, written, mistakes: uniqBy(wrong.map(shown), 'path').toSorted(byLine) };
  const [engine = ''] = engineNames(config.engines);
  const computation =
    section === 'audiences'
      ? audienceOf(read.data as z.output<typeof audience>, engine, config.folder)
      : traitOf(read.data as z.output<typeof trait>, engine, config.folder);
  const alone = { audiences: [], traits: [], [section]: [computation] };
  const warnings = logWarnings({ ...config, ...alone }).map((mistake) =>
    shown({ ...mistake, path: [...path, ...mistake.path.slice(2)] }),
  );
  return { computation, written, mistakes: [], warnings };
}

/** The only item, with its section and its path in the draft. */
function itemIn(content: unknown): readonly [WrittenDefinition['section'], Path, unknown] | { readonly fault: string } {
  if (!isMap(content) || Object.keys(content).length === 0) return { fault: 'needs an audience or a trait' };
  const sections = (['audiences', 'traits'] as const).filter((name) => Object.hasOwn(content, name));
  const [section] = sections;
  if (section === undefined) return [Object.hasOwn(content, 'value') ? 'traits' : 'audiences', [], content];
  const items = content[section];
  if (Object.keys(content).length > 1 || !Array.isArray(items) || items.length !== 1)
    return { fault: 'must have one audience or trait, and nothing else' };
  return [section, [section, 0], items[0]];
}

/** Drafts may not name files of the machine. */
function filesIn(item: unknown, path: Path): readonly Mistake[] {
  if (!isMap(item)) return [];
  const named = ['sqlFile', 'dbt'].filter((name) => item[name] !== undefined);
  return named.map((name) => ({ path: [...path, name], message: 'is not read for a draft: write the text under sql' }));
}

/** Mistakes that it would have in the configuration, in place of the item that it edits. */
function amongOthers(
  section: WrittenDefinition['section'],
  item: unknown,
  config: Config,
  edits: string | null,
  path: Path,
) {
  const own = outlineOf({ [section]: [item] });
  const draft = own?.[section][0];
  if (!own || !draft) return [];
  const others = <T extends { readonly name: string; readonly key: string } | null>(items: readonly T[]) =>
    items.filter((other) => other && ![edits, keyOf(draft)].includes(keyOf(other)));
  const file = {
    ...config.outline,
    audiences: others(config.outline.audiences),
    traits: others(config.outline.traits),
  };
  const index = file[section].length;
  const whole = { ...file, [section]: [...file[section], draft] };
  return [...checkReferences(whole, showPath), ...checkLogReferences(whole, [])]
    .filter((mistake) => mistake.path[0] === section && mistake.path[1] === index)
    .map((mistake) => ({ ...mistake, path: [...path, ...mistake.path.slice(2)] }));
}

const byLine = (one: ShownMistake, other: ShownMistake) => (one.line ?? 0) - (other.line ?? 0);
