import { callHost } from '../call-host.ts';

/** Calls listeners by the name of an event, with the arguments that `Events` gives for it. */
export class Emitter<Events extends Record<keyof Events, unknown[]>> {
  readonly #failed: (why: string) => void;
  readonly #listeners = new Map<keyof Events, Set<(...args: never) => void>>();

  /** @param failed - called when a listener throws, or rejects later */
  constructor(failed: (why: string) => void) {
    this.#failed = failed;
  }

  on<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): this {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return this;
  }

  once<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): this {
    const once = (...args: Events[Name]) => {
      this.off(name, once);
      return listener(...args);
    };
    return this.on(name, once);
  }

  off<Name extends keyof Events>(name: Name, listener: (...args: Events[Name]) => void): this {
    this.#listeners.get(name)?.delete(listener);
    return this;
  }

  /** Unlike in Node, an `error` that nobody listens to is no exception. */
  emit<Name extends keyof Events>(name: Name, ...args: Events[Name]): this {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      callHost(() => (listener as (...args: Events[Name]) => void)(...args), this.#failed);
    }
    return this;
  }

  /** Whether somebody listens. */
  protected hears(name: keyof Events): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }
}
