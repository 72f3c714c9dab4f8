import { alertDestinations, hookOf, sampleAnnouncement } from '../alerts/announcement.ts';
import type { Config } from '../config/config.ts';
import type { TestResult } from '../deliver/test-event.ts';
import type { Destination } from '../destination.ts';
import { systemClock } from '../kernel/clock.ts';

/** The destinations that `rollcall test` accepts, alert hooks included. */
export function testable({ destinations, alerts }: Config): readonly Destination[] {
  return [...destinations, ...alertDestinations(alerts)];
}

/** Post a test event, or these bodies, to each endpoint of a destination, or a made-up alert to an alert hook. */
export async function testDestination(
  destination: Destination,
  { network, serviceName, alerts }: Pick<Config, 'network' | 'serviceName' | 'alerts'>,
  given?: readonly string[],
): Promise<readonly TestResult[]> {
  const [{ createAgent }, { sendTestEvent }] = await Promise.all([
    import('../deliver/http/agent.ts'),
    import('../deliver/test-event.ts'),
  ]);
  const agent = createAgent(network);
  const hook = hookOf(alerts, destination.name);
  const bodies = hook ? [sampleAnnouncement(hook, alerts.link, systemClock.now())] : given;
  return sendTestEvent(destination, { agent, clock: systemClock, serviceName, bodies }).finally(() => agent.close());
}
