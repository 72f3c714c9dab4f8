// The lists of src/admin/page-lists.ts, which page-files.ts writes into a module.

export const PAGES: readonly { path: string; view: string; title?: string }[];
export const REASONS: readonly string[];
export const KINDS: readonly string[];
export const OUTCOMES: readonly string[];
export const STATES: readonly string[];
