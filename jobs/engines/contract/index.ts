import type { EngineCase } from './case.ts';
import { definitionCases } from './definition-cases.ts';
import { historyCases } from './history-cases.ts';
import { lifeCases } from './life-cases.ts';
import { planCases } from './plan-cases.ts';

export type { EngineCase } from './case.ts';
export type { EngineFixture, Spelling } from './fixture.ts';

export const engineCases: readonly EngineCase[] = [...definitionCases, ...planCases, ...lifeCases, ...historyCases];
