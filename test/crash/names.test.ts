import t from 'tap';
import { namesRound, whyNoNames } from './names.ts';

t.test('delivers by the hosts file while the name server is silent', { skip: whyNoNames ?? false }, (t) =>
  namesRound(t, ['hosts file']),
);
