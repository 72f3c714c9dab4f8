import type { BatchOptions } from '../destination.ts';
import type { Clock } from '../kernel/clock.ts';
import { failpoint } from '../kernel/failpoint.ts';
import {
  type Attempt,
  type Claim,
  type EndpointState,
  NO_MARKS,
  type Settlement,
  type Verdict,
} from '../store/port.ts';
import { Batcher, type BatchMemory, type Posted, type Result } from './batcher.ts';
import { isShortage } from './classify.ts';
import type { Outlet } from './endpoint/outlet.ts';
import type { Outlets } from './endpoint/outlets.ts';
import { isDenial } from './endpoint/refusals.ts';
import type { Exchange, PostRequest } from './exchange.ts';
import { batchRequest, singleRequest } from './request.ts';
import { type Denial, type EndpointResult, judge, judgeTaken } from './verdict.ts';

/** Weight of one attempt in the success rate of retries, and the rate below which retries are in vain. */
const RETRY_WEIGHT = 1 / 16;
const VAIN = 0.25;

export interface TriesOptions {
  /** Reads store time. */
  readonly clock: Clock;
  readonly wallTime: () => number;
  readonly batchMemory: BatchMemory;
  /** Calls `done` once, possibly before it returns, or throws. */
  readonly post: (request: PostRequest, done: (exchange: Exchange) => void) => void;
  readonly onEndpointChange: (state: EndpointState) => void;
  /** Called with the error of an attempt for which this machine lacked something. */
  readonly onShortage: (error: string | null) => void;
  readonly destination: string;
  readonly outlets: Outlets;
  readonly require: () => 'any' | 'all';
  readonly mayPost: (outlet: Outlet, generation: number) => boolean;
  /** Called when an endpoint is free for the next delivery, even if this one waits for another endpoint. */
  readonly onFree: (outlet: Outlet) => void;
}

/** Parts shared by settlements of a batch that got the same answer. */
interface Shared {
  readonly posted: Posted;
  readonly results: readonly EndpointResult[];
  readonly attempts: readonly Attempt[];
}

/** Posts the deliveries of one destination to its endpoints, singly or in batches, and judges the results. */
export class Tries {
  private readonly options: TriesOptions;
  /** Recent success rate of retries: 1 for always. */
  private retryYield = 1;
  private shared: Shared | null = null;

  constructor(options: TriesOptions) {
    this.options = options;
  }

  /** True if most retries fail again while the endpoints accept other messages. */
  get retriesAreVain(): boolean {
    return this.retryYield < VAIN;
  }

  configureBatches(outlet: Outlet): void {
    const { batch } = outlet.prepared.endpoint;
    // An endpoint not configured for batches never gets one.
    if (!batch) outlet.batcher?.cut(true);
    if (batch && outlet.batcher) outlet.batcher.configure(batch);
    else outlet.batcher = batch ? this.createBatcher(outlet, batch) : null;
  }

  private createBatcher(outlet: Outlet, batch: BatchOptions): Batcher {
    const { clock, wallTime, post, batchMemory: memory, mayPost, onFree } = this.options;
    return new Batcher(batch, {
      clock,
      outlet,
      memory,
      mayPost: (generation) => mayPost(outlet, generation),
      post: (claims) => {
        const items = claims.map(({ id: key, body }) => ({ key, body }));
        const request = batchRequest(outlet.prepared, items, wallTime);
        return new Promise((resolve) => post(request, resolve));
      },
      leave: (exchange, begun, claim) => this.leave(outlet, exchange, begun, claim),
      secrets: () => outlet.prepared.secrets,
      onRoom: () => onFree(outlet),
    });
  }

  /** Makes one try: posts to every endpoint that has not answered for good, at once. */
  make(claim: Claim, generation: number): Promise<Settlement> {
    const { list } = this.options.outlets;
    const open = claim.marks === NO_MARKS ? list : list.filter(({ id }) => claim.marks[id] === undefined);
    return Promise.all(open.map((outlet) => this.tryEndpoint(outlet, claim, generation))).then((results) =>
      this.settlement(claim, results),
    );
  }

  /**
   * Posts a single delivery, in a place already taken in the endpoint's window.
   *
   * @param done - called once, possibly before this returns; must not throw
   */
  post(outlet: Outlet, claim: Claim, done: (result: Result) => void): void {
    const { clock, wallTime, post } = this.options;
    const at = clock.now();
    const { begun } = outlet.window;
    try {
      const request = singleRequest(outlet.prepared, { id: claim.id, body: Buffer.from(claim.body) }, wallTime);
      post(request, (exchange) => done(this.answered(outlet, exchange, { at, begun }, claim)));
    } catch (error) {
      outlet.withdraw();
      done({ error });
    }
  }

  private answered(
    outlet: Outlet,
    exchange: Exchange,
    { at, begun }: { readonly at: number; readonly begun: number },
    claim: Claim,
  ): Result {
    try {
      return { exchange, at, denial: this.leave(outlet, exchange, begun, claim) };
    } catch (error) {
      return { error };
    }
  }

  settlementOf(outlet: Outlet, claim: Claim, result: Result): Settlement {
    if (!('exchange' in result)) return this.settlement(claim, [this.resultOf(outlet, claim, result)]);
    // Computed once for all messages with the same result.
    if (this.shared?.posted !== result) {
      const results = [{ endpoint: outlet.id, ...result }];
      this.shared = { posted: result, results, attempts: attemptsOf(claim, results, this.options.wallTime) };
    }
    if (claim.tries > 0) this.noteRetry(outlet, result.exchange);
    const { results, attempts } = this.shared;
    return { claim, verdict: this.judge(claim, results), attempts };
  }

  private resultOf(outlet: Outlet, claim: Claim, result: Result): EndpointResult {
    if ('error' in result) throw result.error;
    const endpoint = outlet.id;
    if ('skipped' in result) return { endpoint, ...result, until: this.options.clock.now() + outlet.nextChance };
    if (claim.tries > 0) this.noteRetry(outlet, result.exchange);
    return { endpoint, ...result };
  }

  private settlement(claim: Claim, results: readonly EndpointResult[]): Settlement {
    const verdict = this.judge(claim, results);
    const attempts = verdict.kind === 'release' ? [] : attemptsOf(claim, results, this.options.wallTime);
    return { claim, verdict, attempts };
  }

  private judge(claim: Claim, results: readonly EndpointResult[]): Verdict {
    const { clock, outlets } = this.options;
    const require = this.options.require();
    // An immediate success needs no clock: reading it costs more than judging.
    const taken = judgeTaken({ require, results });
    if (taken) return taken;
    return judge({ claim, require, endpoints: outlets.ids, results, now: clock.now(), random: clock.random() });
  }

  private tryEndpoint(outlet: Outlet, claim: Claim, generation: number): Promise<EndpointResult> {
    const { batcher } = outlet;
    return batcher ? this.tryInBatch(outlet, batcher, claim, generation) : this.tryAlone(outlet, claim, generation);
  }

  private async tryAlone(outlet: Outlet, claim: Claim, generation: number): Promise<EndpointResult> {
    const { mayPost, onFree } = this.options;
    // Most get a place at once, and every promise counts here.
    if (!mayPost(outlet, generation) || !outlet.tryEnter()) {
      const skipped = await outlet.enter(() => mayPost(outlet, generation));
      if (skipped) return this.resultOf(outlet, claim, { skipped });
    }
    const result = this.resultOf(outlet, claim, await new Promise<Result>((done) => this.post(outlet, claim, done)));
    onFree(outlet);
    return result;
  }

  private async tryInBatch(
    outlet: Outlet,
    batcher: Batcher,
    claim: Claim,
    generation: number,
  ): Promise<EndpointResult> {
    if (!this.options.mayPost(outlet, generation)) return this.resultOf(outlet, claim, { skipped: 'cut' });
    return this.resultOf(outlet, claim, await new Promise<Result>((done) => batcher.add({ claim, generation, done })));
  }

  /** Counts a request's result; returns the kind of denial, if it is one. */
  private leave(outlet: Outlet, exchange: Exchange, begun: number, claim: Claim): Denial | null {
    const { destination, onEndpointChange, onShortage, onFree } = this.options;
    failpoint('post');
    if (isShortage(exchange)) {
      outlet.rest(() => onFree(outlet));
      onShortage(exchange.error);
      return null;
    }
    if (outlet.leave(exchange, begun, claim)) onEndpointChange(outlet.stateIn(destination));
    return isDenial(exchange) ? outlet.standing : null;
  }

  private noteRetry({ window }: Outlet, exchange: Exchange): void {
    if (isShortage(exchange)) return;
    if (exchange.outcome === 'success') this.retryYield += (1 - this.retryYield) * RETRY_WEIGHT;
    else if (!window.isAiling) this.retryYield -= this.retryYield * RETRY_WEIGHT;
  }
}

function attemptsOf(claim: Claim, results: readonly EndpointResult[], wallTime: () => number): Attempt[] {
  const attempts: Attempt[] = [];
  for (const result of results) {
    const { endpoint } = result;
    if ('exchange' in result) {
      const { at, ms, outcome, status, error, response } = result.exchange;
      attempts.push({ endpoint, at, ms, outcome, status, error, response });
    } else if (claim.tries === 0 && result.skipped !== 'cut') {
      const error = `endpoint_${result.skipped}`;
      attempts.push({ endpoint, at: wallTime(), ms: 0, outcome: 'skipped', status: null, error, response: null });
    }
  }
  return attempts;
}
