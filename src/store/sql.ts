/** A parameter value that both databases accept. */
type SqlValue = string | number | null | Uint8Array;

/** SQL and its parameters. Only `sql` and `raw` create it, so foreign text is always a parameter. */
export class Sql {
  /** Text before, between and after the values. */
  readonly texts: readonly string[];
  readonly values: readonly SqlValue[];

  constructor(texts: readonly string[], values: readonly SqlValue[]) {
    this.texts = texts;
    this.values = values;
  }

  /** Text for a database. @param place - writes parameter number `n`, counted from 1 */
  text(place: (n: number) => string): string {
    return this.texts.reduce((before, text, n) => before + place(n) + text);
  }
}

/** SQL from a template: nested SQL is inserted as it is, everything else becomes a parameter. */
export function sql(template: TemplateStringsArray, ...parts: readonly (Sql | SqlValue)[]): Sql {
  const texts = [template[0] ?? ''];
  const values: SqlValue[] = [];
  const append = (text: string) => {
    texts[texts.length - 1] += text;
  };
  for (const [index, part] of parts.entries()) {
    if (part instanceof Sql) {
      append(part.texts[0] ?? '');
      texts.push(...part.texts.slice(1));
      values.push(...part.values);
    } else {
      texts.push('');
      values.push(part);
    }
    append(template[index + 1] ?? '');
  }
  return new Sql(texts, values);
}

/** SQL written by the program. Never pass it foreign text. */
export const raw = (text: string): Sql => new Sql([text], []);

export function join(parts: readonly Sql[], separator: string): Sql {
  const [first = raw(''), ...others] = parts;
  return others.reduce((before, part) => sql`${before}${raw(separator)}${part}`, first);
}

/** A WHERE clause of the given conditions; empty without any. */
export function where(...conditions: readonly (Sql | null)[]): Sql {
  const given = conditions.filter((condition) => condition !== null);
  return given.length === 0 ? raw('') : sql`WHERE ${join(given, ' AND ')}`;
}
