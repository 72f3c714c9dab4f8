import type { Annotations } from '../about.ts';
import type { Accept } from '../accept.ts';
import type { Concern } from '../concern.ts';
import type { AlertsConfig } from '../config/config.ts';
import type { Clock } from '../kernel/clock.ts';
import { keepLease, type Lease } from '../kernel/keep-lease.ts';
import { ALERT_SOURCE, type Alert, type Fence, type Store } from '../store/port.ts';
import { type Announcement, alertDestinations, announcementMessage } from './announcement.ts';
import { compare, RESTLESS } from './compare.ts';

interface WatchParts {
  readonly store: Pick<
    Store,
    | 'currentAlerts'
    | 'saveAlerts'
    | 'pruneAlerts'
    | 'trustsClocks'
    | 'takeLease'
    | 'renewLease'
    | 'releaseLease'
    | 'time'
  >;
  readonly clock: Clock;
  readonly log: { warn(details: object, message: string): void; info(details: object, message: string): void };
  readonly accept: Accept;
  readonly config: () => AlertsConfig;
  /** The configuration's notes on the audience or destination that a concern is about. */
  readonly aboutOf: (concern: Concern) => Annotations;
  /** Everything that needs a person now. `before` is the result of the last check. */
  readonly concerns: (before: readonly Concern[]) => Promise<readonly Concern[]>;
}

const LEASE = 'alerts';
export const LOOK_EVERY = 5_000;
const PRUNE_EVERY = 60 * 60_000;
/** Rows pruned in one transaction. */
const STEP = 1_000;

/**
 * Checks every few seconds what needs a person, and notifies the hooks of alerts that open or close. Of the processes that
 * share a store, one does this at a time. Its state is in the store, so that another process can take over.
 */
export class AlertWatch {
  private readonly parts: WatchParts;
  private lease: Lease<Fence> | null = null;
  private looking: Promise<void> = Promise.resolve();
  private cancel = () => {};
  private stopped = false;
  private prunedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: WatchParts) {
    this.parts = parts;
  }

  start(): void {
    if (this.stopped) return;
    this.looking = this.look().catch((error) =>
      this.parts.log.warn({ err: error }, 'Could not check for alerts; retrying'),
    );
    void this.looking.then(() => {
      if (!this.stopped) this.cancel = this.parts.clock.roughly(LOOK_EVERY, () => this.start());
    });
  }

  /** Check once, for a process that soon ends. Does nothing if another process holds the lease. */
  async once(): Promise<void> {
    await this.look().catch((error) => this.parts.log.warn({ err: error }, 'Could not check for alerts'));
    await this.giveUp();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.cancel();
    await this.looking;
    await this.giveUp();
  }

  private async look(): Promise<void> {
    const { store, concerns, config, clock } = this.parts;
    const settings = config();
    if (!settings.isOn) return this.giveUp();
    const lease = await this.leased();
    if (!lease) return;
    const known = await store.currentAlerts(store.time.now() - RESTLESS);
    const open = known.filter(({ closedAt }) => closedAt === null);
    const found = await concerns(open.map(({ about }) => about));
    const now = store.time.now();
    const { changed, gone } = compare(known, found, settings.rules, this.ageOf, { now, newId: () => clock.token(8) });
    if (changed.length > 0 || gone.length > 0) await store.saveAlerts(changed, gone, lease.fence);
    const changes = new Map(changed.map((alert) => [alert.id, alert]));
    const all = [...known.filter(({ id }) => !changes.has(id)), ...changed];
    for (const announcement of announcements(all)) await this.send(announcement, settings, lease.fence);
    await this.prune(settings, now);
  }

  private async leased(): Promise<Lease<Fence> | null> {
    if (this.lease?.signal.aborted) this.lease = null;
    this.lease ??= await keepLease(this.parts.store, this.parts.clock, LEASE);
    return this.lease;
  }

  private async giveUp(): Promise<void> {
    await this.lease?.release();
    this.lease = null;
  }

  private readonly ageOf = ({ since }: Concern): number =>
    since === null ? 0 : Math.max(0, this.parts.clock.now() - Date.parse(since));

  /** After a crash between accepting and saving, the same ids are accepted again, and are ignored as duplicates. */
  private async send(announcement: Announcement, settings: AlertsConfig, fence: Fence): Promise<void> {
    const { accept, store, clock, log, aboutOf } = this.parts;
    const [title] = announcement.alerts.map(({ about }) => about.message);
    const fields = { event: announcement.isOver ? 'alert_closed' : 'alert_opened', alerts: announcement.alerts.length };
    const names = alertDestinations(settings).map(({ name }) => name);
    for (const [place, hook] of settings.hooks.entries()) {
      const message = announcementMessage(hook, announcement, { link: settings.link, at: clock.now(), aboutOf });
      if (message) await accept(ALERT_SOURCE, [message], { to: [names[place] ?? ''] });
    }
    await store.saveAlerts(
      announcement.alerts.map((alert) => sent(alert, announcement.isOver)),
      [],
      fence,
    );
    log.info(
      { ...fields, kind: announcement.alerts[0]?.about.kind },
      `${announcement.isOver ? 'Alert over' : 'Alert'}: ${title}`,
    );
  }

  private async prune({ keep }: AlertsConfig, now: number): Promise<void> {
    const { clock, store } = this.parts;
    if (clock.monotonic() - this.prunedAt < PRUNE_EVERY || !(await store.trustsClocks(clock.now()))) return;
    let pruned = STEP;
    while (pruned === STEP && !this.stopped) pruned = await store.pruneAlerts(now - keep, STEP);
    this.prunedAt = clock.monotonic();
  }
}

/** Announcements that are not sent yet, each with its alerts. */
function announcements(alerts: readonly Alert[]): readonly Announcement[] {
  return (['opening', 'closing'] as const).flatMap((when) => {
    const unsent = alerts.filter((alert) => alert[when]?.sent === false);
    const groups = Map.groupBy(unsent, (alert) => alert[when]?.id ?? '');
    return [...groups].map(([id, alerts]) => ({ id, isOver: when === 'closing', alerts }));
  });
}

function sent(alert: Alert, isOver: boolean): Alert {
  const { opening, closing } = alert;
  if (!isOver) return { ...alert, opening: opening && { ...opening, sent: true } };
  return { ...alert, closing: closing && { ...closing, sent: true }, isOver: true };
}
