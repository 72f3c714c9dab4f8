import { BaseAnalytics } from '../analytics/analytics.ts';
import type { AnalyticsSettings } from '../analytics/settings.ts';
import type { AnyEvents } from '../message.ts';
import { node } from './platform.ts';

/**
 * Takes the place of the class of this name of `@segment/analytics-node`: the same options, calls, callbacks and events.
 *
 * @typeParam Events names of track events and the types of their properties; any by default
 * @example
 * const analytics = new Analytics({ writeKey: 'WRITE_KEY', host: 'http://127.0.0.1:8080' });
 * analytics.track({ userId: 'u1', event: 'Order Completed' }, (error) => console.log(error ?? 'arrived'));
 * await analytics.closeAndFlush();
 */
export class Analytics<Events extends object = AnyEvents> extends BaseAnalytics<Events> {
  /** @throws ClientError `bad_configuration`, naming the option */
  constructor(settings: AnalyticsSettings) {
    super(settings, node);
  }
}
