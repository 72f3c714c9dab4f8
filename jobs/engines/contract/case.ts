import type { EngineFixture } from './fixture.ts';

/** One thing that every engine has to do; definitions use plain SQL only. */
export interface EngineCase {
  /** A sentence for the test. */
  readonly name: string;
  /**
   * Rejects with an `AssertionError` when the engine does not do it; works in any test runner.
   *
   * @param open - makes a new engine over an empty database; cleaning up is the caller's
   */
  run(open: () => Promise<EngineFixture>): Promise<void>;
}
