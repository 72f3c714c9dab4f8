import { runTogether } from './together.ts';

// Not as arguments: tap would name folders after all of them.
const { TEST_FILES = '', TAP_TIMEOUT } = process.env;
await runTogether(TEST_FILES.split(' '), Number(TAP_TIMEOUT) * 1_000);
