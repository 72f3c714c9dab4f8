/** The functions of a database that order the keys of JSON text. */
export interface TextFunctions {
  /** All parts of a text that match a pattern, as a list. */
  matches(text: string, pattern: string): string;
  map(list: string, change: (item: string) => string): string;
  sort(list: string): string;
  join(list: string, by: string): string;
  md5(text: string): string;
}

const STRING = String.raw`"(?:[^"\\]|\\.)*"`;
/** A list or object that contains no other. */
const INNERMOST = String.raw`[\[{](?:${STRING}|[^\[\]{}"])*[\]}]`;
const PARTS = String.raw`${INNERMOST}|${STRING}|[^\[{"]+|[\[{]`;
const MEMBER = `${STRING}:(?:${STRING}|[^",}]+)`;
/** Objects nested deeper are compared as they are written. */
const DEEPEST = 5;

/** SQL for JSON text in a form that is the same whatever the order of an object's keys. */
export function orderedJson(text: string, sql: TextFunctions): string {
  let ordered = text;
  for (let depth = 0; depth < DEEPEST; depth += 1) {
    ordered = sql.join(
      sql.map(sql.matches(ordered, PARTS), (part) => {
        const members = sql.join(sql.sort(sql.matches(part, MEMBER)), ',');
        // No JSON outside of strings has this character.
        const hash = (of: string) => `concat('#', ${sql.md5(of)})`;
        return `CASE WHEN length(${part}) < 2 THEN ${part} WHEN ${part} LIKE '{%' THEN ${hash(members)}
          WHEN ${part} LIKE '[%' THEN ${hash(part)} ELSE ${part} END`;
      }),
      '',
    );
  }
  return ordered;
}
