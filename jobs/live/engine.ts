import type { Clock } from '../../src/kernel/clock.ts';
import { WRITTEN_PLACEHOLDERS } from '../../src/kernel/placeholders.ts';
import type { Store } from '../../src/store/port.ts';
import { computations, type SyncConfig } from '../audience-or-trait.ts';
import { openLive } from '../engines/live/engine.ts';
import type { Engine } from '../engines/port.ts';
import { liveComputations, liveHash } from './definitions.ts';
import { standingOf } from './evaluate.ts';
import { askedOf } from './facts.ts';
import { whyFrozen } from './guard.ts';
import { rowsOf } from './state-rows.ts';

interface LiveEngineParts {
  readonly store: Store;
  readonly config: () => SyncConfig;
  readonly clock: Clock;
}

/** The engine of live audiences, which reads their membership from the store. */
export function liveEngine({ store, config, clock }: LiveEngineParts): Engine {
  return openLive({
    store: store.live,
    hashOf: (key) => liveHash(key, config()),
    definedValue: (key) => config().traits.find((trait) => trait.key === key)?.value ?? null,
    kindOf: (key) => computations(config()).find((each) => each.key === key)?.kind ?? 'audience',
    async whyHeld(audience, changes) {
      const { guard = null } = computations(config()).find(({ key }) => key === audience.key) ?? {};
      // Unless one is written, only an edited definition is judged.
      if (guard === null || (guard.isDefault && audience.hold !== 'edited')) return null;
      return whyFrozen(store.live, guard, audience, changes, clock.now());
    },
    leftOut: (key) => leftOut(key, config(), store, clock.now()),
    now: () => clock.now(),
  });
}

/** Their facts are kept as everybody's are: an audience may allow them. */
async function leftOut(key: string, config: SyncConfig, { live }: Store, now: number): Promise<number> {
  const { source = '' } = computations(config).find((each) => each.key === key) ?? {};
  const definition = liveComputations(config, source).find(({ computation }) => computation.key === key)?.definition;
  const state = await live.currentState(source);
  if (!definition || definition.allowPlaceholders || state === null) return 0;
  const asked = askedOf([{ ...definition, allowPlaceholders: true }], config.eventLog?.keep ?? 0);
  const rows = await rowsOf(live, state.state).ofPersons(WRITTEN_PLACEHOLDERS);
  const persons = [...Map.groupBy(rows, ({ person }) => person ?? '')];
  return persons.filter(([person, own]) => {
    const kept = own.map((row) => row.kept);
    return standingOf(asked, person, kept, now).values.has(key);
  }).length;
}
