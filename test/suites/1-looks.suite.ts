import { runTogether } from '../helpers/together.ts';
import { SUITES } from './suites.ts';

await runTogether(SUITES['1-looks']);
