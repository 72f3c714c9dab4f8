/** `sink.ts [{key,cert}]` */
import { startSink } from '../sink.ts';

const [certificate] = process.argv.slice(2);
startSink(() => {}, certificate === undefined ? undefined : JSON.parse(certificate));
