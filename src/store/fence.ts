/** The right to act for something, given by a lease; a larger token supersedes a smaller one. */
export interface Fence {
  readonly lease: string;
  readonly token: number;
}
