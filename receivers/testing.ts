export { sign } from './signature.ts';
export {
  type CaseResult,
  type ConformanceCase,
  conformance,
  conformanceCases,
  type Target,
} from './testing/conformance.ts';
export {
  createSender,
  envelope,
  type Sender,
  type SenderOptions,
  type SendOptions,
  type Sent,
  type SignedOptions,
  type Signing,
  signed,
  webhook,
} from './testing/sender.ts';
export { type StandardHeaders, signStandard } from './verify/standard.ts';
