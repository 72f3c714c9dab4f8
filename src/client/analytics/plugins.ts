import { ClientError, textOf } from '../errors.ts';
import type { Kind } from '../message.ts';
import { Context } from './context.ts';

/**
 * Sees every message before it is queued, and may change it. A `before` that fails, or returns no context, stops the
 * message; an `enrichment` that does leaves it as it is.
 */
export interface Plugin<Instance = unknown> extends Partial<Record<Kind, (context: Context) => Hooked>> {
  name: string;
  /** `before` runs first, then `enrichment`. A `utility` is only loaded. Others are refused. */
  type: 'before' | 'enrichment' | 'utility';
  version?: string;
  isLoaded(): boolean;
  load(context: undefined, instance: Instance): unknown;
  unload?(context: undefined, instance: Instance): unknown;
}

type Hooked = Context | undefined | Promise<Context | undefined>;

/** The plugins of one instance, in the order in which they run. */
export class Plugins<Instance> {
  readonly #instance: Instance;
  readonly #warn: (text: string) => void;
  /** Names of those whose failure was told. */
  readonly #failed = new Set<string>();
  readonly #loading = new Set<Promise<void>>();
  #list: Plugin<Instance>[] = [];

  constructor(instance: Instance, warn: (text: string) => void) {
    this.#instance = instance;
    this.#warn = warn;
  }

  get isEmpty(): boolean {
    return this.#list.length === 0 && this.#loading.size === 0;
  }

  /**
   * Messages wait until the plugins are loaded, as in that library: an app need not.
   *
   * @throws ClientError `bad_configuration` for one that would send somewhere else; what `load` throws.
   */
  async add(plugins: Plugin<Instance>[]): Promise<void> {
    const added = this.#add(plugins);
    this.#loading.add(added);
    await added.finally(() => this.#loading.delete(added));
  }

  async #add(plugins: Plugin<Instance>[]): Promise<void> {
    for (const { name, type } of plugins) {
      if (!['before', 'enrichment', 'utility'].includes(type)) {
        const why = `the plugin ${name} is of type ${type}; destinations are Rollcall's matter`;
        throw new ClientError('bad_configuration', why, 'plugins');
      }
    }
    await Promise.all(plugins.map((plugin) => plugin.load(undefined, this.#instance)));
    const all = [...this.#list, ...plugins];
    const of = (type: Plugin['type']) => all.filter((plugin) => plugin.type === type);
    this.#list = [...of('before'), ...of('enrichment'), ...of('utility')];
  }

  async remove(names: string[]): Promise<void> {
    const leaving = this.#list.filter(({ name }) => names.includes(name));
    this.#list = this.#list.filter((plugin) => !leaving.includes(plugin));
    await Promise.all(leaving.map((plugin) => plugin.unload?.(undefined, this.#instance)));
  }

  async run(kind: Kind, context: Context): Promise<Context> {
    let current = context;
    if (this.#loading.size > 0) await Promise.allSettled(this.#loading);
    for (const plugin of this.#list) {
      if (plugin.type === 'utility' || !plugin[kind]) continue;
      try {
        const next = await plugin[kind](current);
        if (next instanceof Context) current = next;
        else if (plugin.type === 'before') throw new Error(`the plugin ${plugin.name} stopped the message`);
      } catch (error) {
        if (plugin.type === 'before') throw error;
        this.#tell(plugin.name, error);
      }
    }
    return current;
  }

  /** Once for each plugin: it may fail for every message. */
  #tell(name: string, error: unknown): void {
    if (this.#failed.has(name)) return;
    this.#failed.add(name);
    this.#warn(`the plugin ${name} failed, and messages go out without it: ${textOf(error)}`);
  }
}
