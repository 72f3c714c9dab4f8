import { literal } from '../../sql/plan-query.ts';

/** The notation of a file for values that are not text. */
interface Forms {
  readonly decimal: '.' | ',';
  readonly dateFormat: string | null;
  readonly timestampFormat: string | null;
}

export interface TypedText {
  /** SQL of the value; it fails if the text is not of the type. */
  readonly value: string;
  /** SQL that is true if the text is not of the type. */
  readonly isBad: string;
}

/**
 * Text as a value of a type, without losing anything: DuckDB's own casts round 499.6 to an integer, and drop the offset
 * of a time.
 */
export function typedText(text: string, type: string, forms: Forms): TypedText {
  const name = type.toLowerCase();
  const isNumber = /^(\w*int|integer|double|decimal\b.*)$/.test(name);
  if (isNumber && forms.decimal === ',') {
    const plain = typedText(`replace(${text}, ',', '.')`, type, { ...forms, decimal: '.' });
    return checked(text, `contains(${text}, '.')`, plain);
  }
  if (/^(text|varchar)$/.test(name)) return { value: text, isBad: 'false' };
  if (/^(\w*int|integer)$/.test(name)) {
    // Most text is as the number is written, which is quicker to see than what else may be in it.
    const isOther = `CAST(TRY_CAST(${text} AS ${name}) AS varchar) <> ${text}`;
    return lossless(text, name, `${isOther} AND NOT ${fits(text, '[+-]?\\d+')}`);
  }
  const [, places] = /^decimal\(\d+, ?(\d+)\)$/.exec(name) ?? [];
  if (places !== undefined) {
    const few = `strlen(${text}) - instr(${text}, '.') > ${places}`;
    return lossless(text, name, `${few} AND NOT ${fits(text, `[+-]?\\d*\\.?\\d{0,${places}}0*`)}`);
  }
  if (name === 'date') {
    if (forms.dateFormat !== null) return parsed(text, name, forms.dateFormat);
    return lossless(text, name, `strlen(${text}) > 10`);
  }
  if (name === 'timestamp' || name === 'timestamptz') {
    if (forms.timestampFormat !== null) return parsed(text, name, forms.timestampFormat);
    if (name === 'timestamptz') return lossless(text, name, 'false');
    const plain = `strlen(${text}) <= 19 AND NOT contains(${text}, '+')`;
    const zoned = (cast: string) =>
      `CASE WHEN ${plain} THEN ${cast}(${text} AS timestamp) ELSE CAST(${cast}(${text} AS timestamptz) AS timestamp) END`;
    return { value: zoned('CAST'), isBad: `${text} IS NOT NULL AND ${zoned('TRY_CAST')} IS NULL` };
  }
  return lossless(text, name, 'false');
}

const fits = (text: string, pattern: string) => `regexp_full_match(trim(${text}), ${literal(pattern)})`;

/** @param loses - SQL that is true for text from which the cast would lose something */
function lossless(text: string, type: string, loses: string): TypedText {
  const cast = {
    value: `CAST(${text} AS ${type})`,
    isBad: `${text} IS NOT NULL AND TRY_CAST(${text} AS ${type}) IS NULL`,
  };
  return loses === 'false' ? cast : checked(text, loses, cast);
}

function parsed(text: string, type: string, form: string): TypedText {
  return {
    value: `CAST(strptime(${text}, ${literal(form)}) AS ${type})`,
    isBad: `${text} IS NOT NULL AND try_strptime(${text}, ${literal(form)}) IS NULL`,
  };
}

function checked(text: string, isWrong: string, { value, isBad }: TypedText): TypedText {
  return {
    value: `CASE WHEN ${isWrong} THEN error('not as its table says: ' || ${text}) ELSE ${value} END`,
    isBad: `(${isWrong}) OR (${isBad})`,
  };
}
