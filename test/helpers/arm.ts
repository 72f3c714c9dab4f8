import { armFailpoint, type Failpoint, type FailpointFault } from '../../src/kernel/failpoint.ts';

// Has a fault happen in a program that knows nothing of tests. FAULT is "memory commit 20".
const [fault, name, passes] = (process.env['FAULT'] ?? '').split(' ');
if (name !== undefined) armFailpoint(name as Failpoint, Number(passes), fault as FailpointFault);
