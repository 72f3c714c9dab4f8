import { peakMemoryMb } from '../harness.ts';
import { contenders, type Data } from './contenders.ts';

const [name = '', data = '{}'] = process.argv.slice(2);
const figures = await contenders[name]?.(JSON.parse(data) as Data);
process.send?.({ ...figures, memoryMb: peakMemoryMb() });
