import './arm.ts';

// At this place its end is waited for in the bundle, too (`bundle-programs.ts`).
await import('../../src/cli/main.ts');
