import { type EngineFixture, type SpelledFixture, spelled } from './fixture.ts';

/** One thing that every engine must do. Definitions use only plain SQL. */
export interface EngineCase {
  /** The name of the test. */
  readonly name: string;
  /**
   * Rejects with an `AssertionError` if the engine fails the case. Works in any test runner.
   *
   * @param open - makes a new engine over an empty database; the caller cleans up
   */
  run(open: () => Promise<EngineFixture>): Promise<void>;
}

export const engineCase = (name: string, run: (fixture: SpelledFixture) => Promise<void>): EngineCase => ({
  name,
  run: async (open) => run(await spelled(open)),
});
