export { type EngineCase, engineCases } from './cases.ts';
export type { EngineFixture } from './fixture.ts';
