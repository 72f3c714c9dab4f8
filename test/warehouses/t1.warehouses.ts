import t from 'tap';
import { openTrino } from '../../jobs/readers/trino.ts';
import { readerContract, TRINO_SPELLING } from '../contract/reader.ts';

const url = 'http://test@127.0.0.1:29610/memory/default';
readerContract(t, { open: () => openTrino({ type: 'trino', url }, {}), spelling: TRINO_SPELLING });
