import { runTogether } from '../helpers/together.ts';
import { SUITES } from './suites.ts';

await runTogether(SUITES['3-e2e-postgres']);
