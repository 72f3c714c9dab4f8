/** The secret that the sender still signs with too, as during a rotation. */
export const FORMER = 'the former secret';
