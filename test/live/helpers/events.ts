interface Options {
  readonly count: number;
  /** Timestamps are up to so many milliseconds old. */
  readonly span: number;
  /** Begins the names of users and devices. */
  readonly prefix?: string;
}

/** Events of thirty users on twenty devices, some of whom turn out to be one. */
export function randomEvents(random: () => number, now: number, { count, span, prefix = '' }: Options): object[] {
  const any = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const user = () => `${prefix}u${Math.floor(random() * 30)}`;
  const device = () => `${prefix}d${Math.floor(random() * 20)}`;
  return Array.from({ length: count }, () => {
    const timestamp = new Date(now - Math.round(random() ** 3 * span)).toISOString();
    const kind = random();
    if (kind < 0.1) return { type: 'identify', userId: user(), anonymousId: device(), timestamp, traits: {} };
    if (kind < 0.2)
      return { type: 'identify', userId: user(), timestamp, traits: { plan: any(['pro', 'free', null]) } };
    if (kind < 0.23) return { type: 'alias', previousId: user(), userId: user(), timestamp };
    const properties = { total: Math.round(random() * 100), item: any(['a', 'b', 'c']) };
    const who = random() < 0.3 ? { anonymousId: device() } : { userId: user() };
    return { type: 'track', event: any(['Order', 'Order', 'View']), ...who, timestamp, properties };
  });
}

/** The same numbers from 0 to 1 for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}
