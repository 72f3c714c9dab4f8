/** Passes of browsers that must not be used again: see the table `spent_pass`. */
export interface SpentPassRecords {
  /** Spends a pass that ends at `endsAt`. False if it was spent before, or if too many are kept. */
  spendPass(hash: string, endsAt: number, now: number): Promise<boolean>;
  isSpent(hash: string): Promise<boolean>;
}
