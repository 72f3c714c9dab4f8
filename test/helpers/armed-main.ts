import './arm.ts';

// Only then: in one file (`bundle-programs.ts`) the order of imports is not that of their lines.
await import('../../src/cli/main.ts');
