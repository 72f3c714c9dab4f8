export interface Order {
  readonly id: number;
  readonly customer: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly amount: number;
}

const CUSTOMERS = 60;
const DAY = 86_400_000;

/** Orders as if drawn by lot, but the same ones for the same seed. */
export function createOrderBook(seed: number) {
  const random = mulberry32(seed);
  let id = 0;
  return {
    next(at: number): Order {
      id += 1;
      // Some customers buy far more often than others.
      const customer = `customer-${String(Math.floor(random() ** 2 * CUSTOMERS) + 1).padStart(2, '0')}`;
      return { id, customer, at, amount: Math.round((5 + random() ** 3 * 195) * 100) / 100 };
    },
  };
}

export type OrderBook = ReturnType<typeof createOrderBook>;

/** So many orders, spread evenly over the 90 days before `end`. */
export function history(book: OrderBook, count: number, end: number): readonly Order[] {
  return Array.from({ length: count }, (_, index) => book.next(end - ((count - index) * 90 * DAY) / count));
}

/** The message that the shop sends of a customer. */
export function customerTraits(userId: string) {
  return { userId, traits: { email: `${userId}@example.com` } };
}

/** The message that the shop sends of an order. */
export function orderEvent({ id, customer, at, amount }: Order) {
  return {
    userId: customer,
    event: 'Order Completed',
    timestamp: new Date(at),
    properties: { orderId: id, total: amount },
  };
}

/** A small generator of random numbers that takes a seed. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
