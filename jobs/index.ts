export type { AcceptChanges, Log, Notice, Progress } from './context.ts';
export type { OpenEngine } from './engines/open.ts';
export type { Engine } from './engines/port.ts';
export type { SyncPlan } from './plan.ts';
export type { CurrentBody, DeadChange } from './replay.ts';
export { membersBefore, runLine, tookMs } from './run-line.ts';
export type { SyncOptions, SyncReport } from './runner.ts';
export { type ComputedType, createSync, type Sync, type SyncTime } from './sync.ts';
export type { Story } from './why.ts';
