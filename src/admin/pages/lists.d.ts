// The lists of src/admin/page-lists.ts, which page-files.ts turns into a module.

export const PAGES: readonly { path: string; view: string; title?: string }[];
/** The tone of each kind, the page about one (the subject is appended) and about all. `these` completes “3 more …”. */
export const CONCERNS: Readonly<Record<string, { tone: string; page: string; all: string; these: string }>>;
export const REASONS: readonly string[];
export const KINDS: readonly string[];
export const OUTCOMES: readonly string[];
export const STATES: readonly string[];
/** The form of the operand of each operator of short definitions. */
export const OPERATORS: Readonly<Record<string, string>>;
/** Operators of computed traits. */
export const VALUE_OPERATORS: readonly string[];
/** What to write into the configuration first. */
export const EXAMPLES: Readonly<Record<'sources' | 'destinations' | 'audiences', string>>;
