import { BaseAnalytics } from '../analytics/analytics.ts';
import type { AnalyticsSettings } from '../analytics/settings.ts';
import type { AnyEvents } from '../message.ts';
import { web } from './platform.ts';

/**
 * Takes the place of the class of this name of `@segment/analytics-node`; `host` is required in browsers.
 *
 * @typeParam Events names of track events and the types of their properties; any by default
 */
export class Analytics<Events extends object = AnyEvents> extends BaseAnalytics<Events> {
  /** @throws ClientError `bad_configuration`, naming the option */
  constructor(settings: AnalyticsSettings) {
    super(settings, web);
  }
}
