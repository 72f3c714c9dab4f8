export { sign } from './signature.ts';
export {
  type CaseResult,
  type ConformanceCase,
  conformance,
  conformanceCases,
  type Target,
} from './testing/conformance.ts';
export { createSender, type Sender, type SendOptions, type Sent, signed, webhook } from './testing/sender.ts';
