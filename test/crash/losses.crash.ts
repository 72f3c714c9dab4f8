import t from 'tap';
import { LOSSES, type Loss, lossRound } from './losses.ts';

for (const loss of Object.keys(LOSSES) as Loss[]) {
  for (const how of ['under load', 'when idle', 'just before a stop'] as const) {
    t.test(`ends with an error: ${loss} ${how}`, (t) => lossRound(t, loss, how));
  }
}
