import type { Clock } from '../../src/kernel/clock.ts';
import type { Store } from '../../src/store/port.ts';
import { computations, type SyncConfig } from '../audience-or-trait.ts';
import { openLive } from '../engines/live/engine.ts';
import type { Engine } from '../engines/port.ts';
import { liveHash } from './definitions.ts';
import { whyFrozen } from './guard.ts';

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
    now: () => clock.now(),
  });
}
