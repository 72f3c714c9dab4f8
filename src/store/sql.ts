/** A parameter that either database takes. */
type SqlValue = string | number | null | Uint8Array;

/** SQL and its parameters. Only `sql` and `raw` make it, so that foreign text can't be anything but a parameter. */
export class Sql {
  /** The text before, between and after the values. */
  readonly texts: readonly string[];
  readonly values: readonly SqlValue[];

  constructor(texts: readonly string[], values: readonly SqlValue[]) {
    this.texts = texts;
    this.values = values;
  }

  /** The text for a database. @param place - how it writes its parameter number `n`, counted from 1 */
  text(place: (n: number) => string): string {
    return this.texts.reduce((before, text, n) => before + place(n) + text);
  }
}

/** SQL of a template: other SQL goes in as it is, everything else as a parameter. */
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

/** SQL that the program itself made. Never give it foreign text. */
export const raw = (text: string): Sql => new Sql([text], []);

export function join(parts: readonly Sql[], separator: string): Sql {
  const [first = raw(''), ...others] = parts;
  return others.reduce((before, part) => sql`${before}${raw(separator)}${part}`, first);
}

/** A WHERE clause of the conditions that are given; nothing without any. */
export function where(...conditions: readonly (Sql | null)[]): Sql {
  const given = conditions.filter((condition) => condition !== null);
  return given.length === 0 ? raw('') : sql`WHERE ${join(given, ' AND ')}`;
}
