import type { ComputedType } from '../../jobs/index.ts';

/**
 * A TypeScript declaration that names the audiences and traits for the receiver kit, so that a handler for another one does
 * not compile.
 */
export function typesFile(types: readonly ComputedType[]): string {
  const audiences = types.filter(({ kind }) => kind === 'audience').map(({ key }) => JSON.stringify(key));
  const traits = types.filter(({ kind }) => kind === 'trait').map((type) => `      ${traitLine(type)}`);
  return `// Made by \`rollcall types\`: make it anew when audiences or traits change.
import '@rollcall/receivers';

declare module '@rollcall/receivers' {
  interface Register {
    audiences: ${audiences.join(' | ') || 'never'};
    traits: {${traits.length > 0 ? `\n${traits.join('\n')}\n    ` : ''}};
  }
}
`;
}

const ANY_SCALAR = 'string | number | boolean';

const listOf = (type: string) => (type === 'scalar' ? `(${ANY_SCALAR})[]` : `(${type} | null)[]`);

function traitLine({ key, columns }: ComputedType): string {
  const values = columns.map((column) => {
    const type = column.isList ? listOf(column.type) : column.type === 'scalar' ? ANY_SCALAR : column.type;
    return `${JSON.stringify(column.key)}: ${type === 'unknown' ? type : `${type} | null`}`;
  });
  return `${JSON.stringify(key)}: { ${values.join('; ')} };`;
}
