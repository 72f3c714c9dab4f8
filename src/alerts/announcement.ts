import type { Annotations } from '../about.ts';
import { type Concern, type ConcernKind, RULES } from '../concern.ts';
import type { AlertHook, AlertsConfig } from '../config/config.ts';
import { type Destination, endpointId } from '../destination.ts';
import { isoTime } from '../kernel/timestamp.ts';
import type { Message } from '../message.ts';
import { ALERT_SOURCE, type Alert } from '../store/port.ts';
import { chatBody } from './format.ts';

const destinationOf = ({ name }: AlertHook) => `${ALERT_SOURCE}:${name}`;

/** Alerts that one announcement lists. The rest are only counted. */
const LISTED = 20;

/** The hooks as destinations: announcements are signed, retried and kept like any other message. */
export function alertDestinations({ hooks }: AlertsConfig): readonly Destination[] {
  return hooks.map((hook) => {
    const name = destinationOf(hook);
    return {
      ...{ name, enabled: true, sources: [ALERT_SOURCE], secrets: hook.secret === null ? [] : [hook.secret] },
      // The path of a chat's hook is its credential.
      endpoints: [{ id: endpointId(name, hook.url), url: hook.url, headers: {}, isSecret: true }],
      ...{ require: 'any', ratePerSecond: null },
    };
  });
}

/** Alerts of one kind that are announced together. */
export interface Announcement {
  readonly id: string;
  readonly isOver: boolean;
  readonly alerts: readonly Alert[];
}

interface AnnouncementOptions {
  readonly link: string | null;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** The configuration's notes on the audience or destination that a concern is about. */
  readonly aboutOf?: (concern: Concern) => Annotations;
}

/**
 * An announcement as a message for one hook; null if all its alerts are about that hook, which is not alerted about itself.
 * An announcement keeps its message id, so that one accepted before a crash is not sent again.
 */
export function announcementMessage(
  hook: AlertHook,
  announcement: Announcement,
  { link, at, aboutOf = () => ({}) }: AnnouncementOptions,
): Message | null {
  const { id, isOver } = announcement;
  const alerts = announcement.alerts.filter(({ about }) => about.destination !== destinationOf(hook));
  const [first] = alerts;
  if (!first) return null;
  const items = alerts
    .slice(0, LISTED)
    .map((alert) => ({ ...itemOf(alert, link), alert: alert.id, ...aboutOf(alert.about) }));
  const more = alerts.length - items.length;
  const title = titleOf(first.about.kind, alerts.length, isOver);
  const messageId = `alert-${id}-${endpointId(hook.name, '')}`;
  const body =
    hook.format === 'json'
      ? trackBody(messageId, { kind: first.about.kind, message: title, alerts: items, more }, isOver, at)
      : chatBody(hook.format, { title, items, more, isOver });
  return { type: 'track', messageId, userId: null, integrations: null, body: JSON.stringify(body) };
}

export function sampleAnnouncement(hook: AlertHook, link: string | null, at: number): string {
  const about = { kind: 'endpointDead', subject: 'example', destination: 'example', since: isoTime(at) } as const;
  const message = 'This is a test: rollcall test posted it, and nothing is wrong.';
  const alert = { id: 'test', about: { ...about, message } } as Alert;
  return announcementMessage(hook, { id: 'test', isOver: false, alerts: [alert] }, { link, at })?.body ?? '';
}

export function hookOf({ hooks }: AlertsConfig, destination: string): AlertHook | undefined {
  return hooks.find((hook) => destinationOf(hook) === destination);
}

function itemOf({ about }: Pick<Alert, 'about'>, link: string | null) {
  const { kind, subject, destination = null, audience = null, run = null, since, message } = about;
  const { page, link: path = page } = RULES[kind];
  return {
    ...{ kind, subject, destination, audience, run, since, message },
    link: link && link + path + encodeURIComponent(subject),
  };
}

function titleOf(kind: ConcernKind, count: number, isOver: boolean): string {
  const { one, many } = RULES[kind];
  const title = count === 1 ? one : `${count} ${many}`;
  return isOver ? `Over: ${title.charAt(0).toLowerCase()}${title.slice(1)}` : title;
}

function trackBody(messageId: string, properties: object, isOver: boolean, at: number): object {
  const [event, timestamp] = [isOver ? 'Alert Closed' : 'Alert Opened', isoTime(at)];
  return { version: 1, type: 'track', messageId, event, properties, timestamp, receivedAt: timestamp, context: {} };
}
