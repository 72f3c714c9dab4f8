import { configJsonSchema } from '../../src/config/schema.ts';

/** A JSON Schema, as far as that of the configuration goes. */
export interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

export const schema = configJsonSchema() as Schema;

/** A line of docs/configuration.md. */
export interface Setting {
  readonly path: string;
  readonly type: string;
  readonly default: string;
  readonly meaning: string;
  readonly example: string;
}

const NONE = '–';
const code = (value: unknown) => `\`${typeof value === 'string' ? value : flow(value)}\``;

/** As YAML has it on one line. */
function flow(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flow).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  return `{ ${Object.entries(value)
    .map(([key, each]) => `${key}: ${flow(each)}`)
    .join(', ')} }`;
}

function typeOf({ title, const: only, enum: values, type, properties }: Schema): string {
  if (values) return values.map(code).join(', ');
  if (only !== undefined) return code(only);
  return title ?? (properties ? 'map' : (type ?? ''));
}

function defaultOf({ default: value, properties }: Schema, isRequired: boolean): string {
  if (isRequired) return 'required';
  const isNothing = value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0);
  return isNothing || properties ? NONE : code(value);
}

const setting = (path: string, schema: Schema, isRequired: boolean): Setting => ({
  path,
  type: typeOf(schema),
  default: defaultOf(schema, isRequired),
  meaning: schema.description ?? '',
  example: schema.examples ? code(schema.examples[0]) : NONE,
});

const isMap = ({ properties, description }: Schema) => properties !== undefined && description === undefined;

/** All settings below a schema, such as `guard.maxExits` and `webhooks[].url`, each before those within it. */
export function settings(schema: Schema, prefix = '', isWanted = (_path: string) => true): readonly Setting[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    if (!isWanted(path)) return [];
    const self = isMap(property) ? [] : [setting(path, property, (schema.required ?? []).includes(name))];
    const inside = property.title === 'short definition' ? [] : settings(property, path, isWanted);
    return [...self, ...inside, ...(property.items ? settings(property.items, `${path}[]`, isWanted) : [])];
  });
  const branches = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap((each) =>
    settings(each, prefix, isWanted),
  );
  return merged([...own, ...branches]);
}

/** Settings that several kinds share stand once, with the types and defaults of each. */
export function merged(all: readonly Setting[]): readonly Setting[] {
  const paths = [...new Set(all.map(({ path }) => path))];
  return paths.map((path) => {
    const same = all.filter((each) => each.path === path);
    const each = (field: 'type' | 'default' | 'meaning') => [...new Set(same.map((one) => one[field]))];
    const meaning = each('meaning').filter((text) => text !== '');
    const example = same.find((one) => one.example !== NONE)?.example ?? NONE;
    return {
      path,
      type: each('type').join(', '),
      default: each('default').join(' or '),
      meaning: meaning.join(' '),
      example,
    };
  });
}
