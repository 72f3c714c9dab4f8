import type { Message, UnknownMessage } from './messages.ts';
import type { Change } from './store.ts';

/** The identify calls of audiences and computed traits. */
export interface Computed {
  readonly kind: 'audience' | 'trait';
  /** The key of the audience or trait. */
  readonly key: string;
  readonly id: string;
  readonly userId: string;
  readonly sequence: number | undefined;
}

/** What a message says of an audience or trait, if it is the call of one. */
export function computedOf(message: Message | UnknownMessage): Computed | undefined {
  if (message.type !== 'identify') return undefined;
  const { userId, context } = message as Extract<Message, { type: 'identify' }>;
  const { computation_class: kind, computation_key: key, computation_id: id, sequence } = context.personas ?? {};
  if ((kind !== 'audience' && kind !== 'trait') || typeof key !== 'string' || userId === undefined) return undefined;
  // A fraction or a number beyond what a double counts is no sequence of ours.
  const isSequence = Number.isSafeInteger(sequence) && (sequence as number) >= 0;
  return { kind, key, id: typeof id === 'string' ? id : key, userId, sequence: isSequence ? sequence : undefined };
}

/** The change that a call brings; `scope` names receiver and sender, so that no other can get before it. */
export function changeOf(computed: Computed | undefined, scope: string): Change | undefined {
  if (computed?.sequence === undefined) return undefined;
  const { kind, id, userId, sequence } = computed;
  return { name: JSON.stringify([scope, kind, id, userId]), sequence };
}

/** Has the tasks of one name done one after the other. */
export type InTurn = <T>(name: string, task: () => Promise<T>) => Promise<T>;

export function createTurns(): InTurn {
  const last = new Map<string, Promise<unknown>>();
  return (name, task) => {
    const before = last.get(name);
    const turn = before === undefined ? task() : before.then(task, task);
    last.set(name, turn);
    const forget = () => last.get(name) === turn && last.delete(name);
    turn.then(forget, forget);
    return turn;
  };
}
