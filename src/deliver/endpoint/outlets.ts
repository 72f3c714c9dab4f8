import { KeyObject } from 'node:crypto';
import isEqual from 'lodash/isEqual.js';
import isEqualWith from 'lodash/isEqualWith.js';
import type { Destination } from '../../destination.ts';
import type { Clock } from '../../kernel/clock.ts';
import type { EndpointState, Refusal } from '../../store/port.ts';
import { type PreparedEndpoint, prepareEndpoint } from '../request.ts';
import { type Share, WHOLE } from '../share.ts';
import { Outlet } from './outlet.ts';
import { REFUSALS } from './refusals.ts';
import { Window } from './window.ts';

/** The endpoints of one destination, with this process's state of each. */
export class Outlets {
  list: readonly Outlet[] = [];
  ids: readonly string[] = [];
  private readonly clock: Clock;
  /** Called with the state that a new endpoint inherits. */
  private readonly onChange: (state: EndpointState) => void;

  constructor(clock: Clock, onChange: (state: EndpointState) => void) {
    this.clock = clock;
    this.onChange = onChange;
  }

  /** Applies a changed configuration. State of unchanged endpoints stays. */
  configure(
    destination: Destination,
    serviceName: string,
    states: ReadonlyMap<string, EndpointState>,
    share: Share | null,
  ): void {
    const before = this.list;
    this.list = destination.endpoints.map((endpoint) => {
      const prepared = prepareEndpoint(endpoint, destination, serviceName);
      const known = before.find(({ id }) => id === endpoint.id);
      return known ? reconfigured(known, prepared) : this.create(destination, prepared, states, share ?? WHOLE);
    });
    this.ids = this.list.map(({ id }) => id);
    for (const outlet of before) outlet.wakeAll();
  }

  private create(
    destination: Destination,
    prepared: PreparedEndpoint,
    states: ReadonlyMap<string, EndpointState>,
    share: Share,
  ): Outlet {
    const { id } = prepared.endpoint;
    const known = states.get(id);
    // If the URL was wrong and has been fixed, the new endpoint gets what the old one refused.
    const inherited = known ? null : refusalOfRemoved(destination, states);
    const { pausedAt = null, deadSince = null, refusal = inherited } = known ?? {};
    if (inherited)
      this.onChange({ endpoint: id, destination: destination.name, pausedAt, deadSince, refusal: inherited });
    const window = new Window({ pausedAt, deadSince, refusingSince: refusal?.since ?? null, share });
    return new Outlet(prepared, window, this.clock, refusal);
  }

  find(endpoint: string): Outlet | undefined {
    return this.list.find(({ id }) => id === endpoint);
  }

  changeShare(share: Share): void {
    for (const { window } of this.list) window.changeShare(share);
  }

  /** Applies a state found by another process or a person; true if it opened or closed the endpoint. */
  hear(state: EndpointState): boolean {
    const outlet = this.find(state.endpoint);
    if (!outlet) return false;
    const before = outlet.window.open;
    outlet.hear(state);
    return outlet.window.open !== before;
  }

  wakeAll(): void {
    for (const outlet of this.list) outlet.wakeAll();
  }

  get hasRoom(): boolean {
    return this.list.some(({ hasRoom }) => hasRoom);
  }

  get areClosed(): boolean {
    return !this.list.some(({ window }) => window.open);
  }

  /** True if an endpoint may be closed because of its certificate or address. */
  get mayBeUntrusted(): boolean {
    return this.list.some(({ mayBeUntrusted }) => mayBeUntrusted);
  }

  /** True if a probe should be an untried message, so that each probe is a different one. */
  get probeUntried(): boolean {
    return this.list.some(({ window }) => window.refusingSince !== null);
  }

  /** Milliseconds until the next probe; null if every endpoint is paused. */
  get untilProbe(): number | null {
    const probes = this.list.filter(({ window }) => window.pausedAt === null).map(({ untilProbe }) => untilProbe);
    return probes.length > 0 ? Math.max(1, Math.min(...probes)) : null;
  }

  /** Endpoints that seem to refuse everything, as far as this process can tell alone. */
  get suspected(): readonly Outlet[] {
    return this.list.filter(
      ({ refusals, window }) => window.open && refusals.row >= (window.leads ? REFUSALS / window.sharers : REFUSALS),
    );
  }

  /**
   * Time since when all endpoints are closed; null while one is open.
   *
   * @param askedSince - lower bound, since nobody tried them before
   */
  heldBackSince(askedSince: number): number | null {
    let since: number | null = null;
    for (const { window } of this.list) {
      const closed = window.pausedAt ?? window.refusingSince ?? window.deadSince;
      if (closed === null) return null;
      since = Math.max(since ?? askedSince, closed);
    }
    return since;
  }

  /** True if this process has tried every endpoint since then; a paused one can't be tried. */
  haveBeenTried(since: number): boolean {
    return this.list.every(({ window, triedAt }) => window.pausedAt !== null || (triedAt !== null && triedAt >= since));
  }
}

/** Refusal of an endpoint that is no longer configured; the deliveries it refused must still be sent again. */
function refusalOfRemoved(
  { name, endpoints }: Destination,
  states: ReadonlyMap<string, EndpointState>,
): Refusal | null {
  const removed = [...states.values()].filter(
    ({ endpoint, destination }) => destination === name && !endpoints.some(({ id }) => id === endpoint),
  );
  return removed.find(({ refusal }) => refusal)?.refusal ?? null;
}

/** Probes a changed closed endpoint at once: it may have waited for the new secret or header. */
function reconfigured(outlet: Outlet, prepared: PreparedEndpoint): Outlet {
  const { key, standardKeys, ...rest } = prepared;
  const { key: keyBefore, standardKeys: standardKeysBefore, ...restBefore } = outlet.prepared;
  const areSameKeys = isEqualWith([key, standardKeys], [keyBefore, standardKeysBefore], sameKey);
  if (!areSameKeys || !isEqual(rest, restBefore)) outlet.window.probeSoon();
  return Object.assign(outlet, { prepared });
}

/** Compares keys by their bytes; anything else as usual. */
const sameKey = (a: unknown, b: unknown) =>
  a instanceof KeyObject && b instanceof KeyObject ? a.equals(b) : undefined;
