import { systemClock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import type { TestResult } from '../deliver/test-event.ts';
import type { Destination } from '../destination.ts';

/** Posts a test event to each endpoint of a destination. */
export async function testDestination(
  destination: Destination,
  { network, serviceName }: Pick<Config, 'network' | 'serviceName'>,
): Promise<readonly TestResult[]> {
  const [{ createAgent }, { sendTestEvent }] = await Promise.all([
    import('../deliver/http/agent.ts'),
    import('../deliver/test-event.ts'),
  ]);
  const agent = createAgent(network);
  return sendTestEvent(destination, { agent, clock: systemClock, serviceName }).finally(() => agent.close());
}
