import memoize from 'lodash/memoize.js';
import type { Concern } from '../concern.ts';
import type { AlertRules } from '../config/config.ts';
import type { Alert } from '../store/port.ts';

/** A concern must be gone for this long before its end is announced. */
export const SETTLES = 60_000;
/** An alert that reopens within this time after its end is flapping: each time, its end must last twice as long. */
export const RESTLESS = 60 * 60_000;
/** Announcements of one kind within `WITHIN`. Later ones wait and are sent together. */
const ANNOUNCEMENTS = 5;
export const WITHIN = 5 * 60_000;

interface Moment {
  /** Store time. */
  readonly now: number;
  readonly newId: () => string;
}

interface Changes {
  readonly changed: readonly Alert[];
  /** Ids of alerts that ended before they were announced. */
  readonly gone: readonly string[];
}

/**
 * Compares the current concerns with the known alerts: which begin, last or end, and which announcements to send.
 *
 * @param known - alerts that are not over, or were closed within the last hour
 * @param ageOf - milliseconds for which a concern has held; 0 if it does not say
 */
export function compare(
  known: readonly Alert[],
  concerns: readonly Concern[],
  rules: AlertRules,
  ageOf: (concern: Concern) => number,
  moment: Moment,
): Changes {
  const open = new Map(known.filter(({ closedAt }) => closedAt === null).map((alert) => [keyOf(alert.about), alert]));
  const holding = new Map(concerns.filter(({ kind }) => rules[kind].isOn).map((concern) => [keyOf(concern), concern]));
  const begun = [...holding].flatMap(([key, concern]) =>
    open.has(key) ? [] : [begin(concern, known, ageOf(concern), moment)],
  );
  const gone = [...open].filter(([key, { openedAt }]) => openedAt === null && !holding.has(key));
  const left = known.filter(({ openedAt, about }) => openedAt !== null || holding.has(keyOf(about)));
  const next = [...left, ...begun].map((alert) => {
    const concern = alert.closedAt === null ? holding.get(keyOf(alert.about)) : undefined;
    return concern ? hold(alert, concern, rules, moment) : rest(alert, rules, moment);
  });
  const told = announce(next, moment);
  const before = new Map(known.map((alert) => [alert.id, JSON.stringify(alert)]));
  return {
    changed: told.filter((alert) => before.get(alert.id) !== JSON.stringify(alert)),
    gone: gone.map(([, { id }]) => id),
  };
}

const keyOf = ({ kind, subject }: Concern) => `${kind} ${subject}`;

function begin(about: Concern, known: readonly Alert[], age: number, { now, newId }: Moment): Alert {
  const last = known.findLast((alert) => alert.closedAt !== null && keyOf(alert.about) === keyOf(about));
  const isRestless = last !== undefined && now - (last.closedAt ?? 0) < RESTLESS;
  return {
    ...{ id: newId(), about, firstAt: now - age, openedAt: null, goneAt: null, closedAt: null },
    ...{ flaps: isRestless ? last.flaps + 1 : 0, opening: null, closing: null, isOver: false },
  };
}

/** Keep the alert of a concern that holds. Open it once the concern has held for long enough. */
function hold(alert: Alert, about: Concern, rules: AlertRules, { now }: Moment): Alert {
  const hasLasted = now - alert.firstAt >= rules[about.kind].after;
  return { ...alert, about, goneAt: null, openedAt: alert.openedAt ?? (hasLasted ? now : null) };
}

/** Keep the alert of a concern that no longer holds. Close it once the concern has been gone for long enough. */
function rest(alert: Alert, rules: AlertRules, { now }: Moment): Alert {
  if (alert.closedAt !== null) return alert;
  const goneAt = alert.goneAt ?? now;
  const patience = Math.min(RESTLESS, SETTLES * 2 ** alert.flaps);
  if (now - goneAt < patience) return { ...alert, goneAt };
  // A rule that is switched off does not announce ends either.
  const isOver = alert.opening === null || !rules[alert.about.kind].isOn;
  return { ...alert, goneAt, closedAt: now, isOver };
}

/** Assign announcements to alerts that are due one: one per kind, up to the limit. */
function announce(alerts: readonly Alert[], moment: Moment): readonly Alert[] {
  const opening = announcementsFor(
    alerts,
    'opening',
    (alert) => alert.openedAt !== null && alert.closedAt === null,
    moment,
  );
  return announcementsFor(opening, 'closing', (alert) => alert.closedAt !== null && alert.opening !== null, moment);
}

function announcementsFor(
  alerts: readonly Alert[],
  when: 'opening' | 'closing',
  isDue: (alert: Alert) => boolean,
  { now, newId }: Moment,
): readonly Alert[] {
  const announcementOf = memoize((kind: string): string | null => {
    const recent = alerts.flatMap(({ about, [when]: announcement }) =>
      about.kind === kind && announcement && now - announcement.at < WITHIN ? [announcement.id] : [],
    );
    return new Set(recent).size < ANNOUNCEMENTS ? newId() : null;
  });
  return alerts.map((alert) => {
    if (alert.isOver || alert[when] !== null || !isDue(alert)) return alert;
    const id = announcementOf(alert.about.kind);
    return id === null ? alert : { ...alert, [when]: { id, at: now, sent: false } };
  });
}
