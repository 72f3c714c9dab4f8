import { startSink } from '../sink.ts';

startSink();
