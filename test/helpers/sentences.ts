/** The sentences of a page of Markdown, without code and addresses; an item of a list and a cell of a table end one. */
export function sentencesOf(markdown: string): readonly string[] {
  return markdown
    .replaceAll(/^(```|~~~).*?^\1/gms, '\n\n')
    .replaceAll(/<!--.*?-->/gs, '\n\n')
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/^\|[-|: ]+\|$/gm, '')
    .replaceAll(/^\s*(?:[-*]|\d+\.|#+|>)\s+/gm, '\n\n')
    .split(/\n\s*\n|\||^\s*$/m)
    .flatMap((paragraph) => paragraph.split(/(?<=[.!?…][)"”*]*)\s+(?=["“(*]*[\p{Lu}\d]|code)/u))
    .map((sentence) => sentence.replaceAll(/\s+/g, ' ').trim())
    .filter((sentence) => sentence !== '');
}

export const wordsOf = (sentence: string): number =>
  sentence.split(' ').filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
